(module
  (memory (export "memory") 2)
  (data (i32.const 16) "{\22set\22:{\22n\22:1}}")
  (data (i32.const 64) "\22state\22:")
  (global $calls (mut i32) (i32.const 0))
  (func (export "sekisho_agents_abi") (result i32) (i32.const 1))
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "handle") (param $at i32) (param $length i32) (result i64)
    (local $end i32) (local $to i32)
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (local.set $to (i32.const 32769))
    (i32.store8 (i32.const 32768) (i32.const 91))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 33))
          (then (WRONG)))
        (if (i64.eq (i64.load (local.get $at)) (i64.load (i32.const 64)))
          (then
            (if (i32.ne (local.get $to) (i32.const 32769))
              (then
                (i32.store8 (local.get $to) (i32.const 44))
                (local.set $to (i32.add (local.get $to) (i32.const 1)))))
            (memory.copy (local.get $to) (i32.const 16) (i32.const 15))
            (local.set $to (i32.add (local.get $to) (i32.const 15)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i32.store8 (local.get $to) (i32.const 93))
    (i64.or
      (i64.shl (i64.const 32768) (i64.const 32))
      (i64.extend_i32_u (i32.sub (i32.add (local.get $to) (i32.const 1)) (i32.const 32768))))))
