#![allow(missing_docs, clippy::print_stdout)]
use load::http::*;
use std::sync::atomic::AtomicBool;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = Target::parse(&a[1], Reach::Private).unwrap();
    let load = match a[2].parse::<f64>() { Ok(rate) if a[3]=="open" => Load::Open{arrivals: workload::Arrivals::Poisson{rate}, in_flight_max: 1000}, Ok(c) => Load::Closed{clients: c as u32, think: workload::Dist::Constant(0.0)}, _ => panic!() };
    let mut s = PlanSpec::new(t, load, measure::Until::Seconds(2.5));
    if a.iter().any(|x| x=="close") { s.connections = Connections::PerRequest; }
    if a.iter().any(|x| x=="rst") { s.closing = Closing::Rst; }
    if a.iter().any(|x| x=="docs") { s.documents = Some(workload::DocumentSet::webstone()); }
    let p = Plan::new(s).unwrap();
    let n = Naming{id:"x".into(),started:"".into(),tool:"".into(),command:vec![]};
    let r = record(&p, n, &AtomicBool::new(false), &mut |i| println!("{} {} {:?} L {} cpu {:?} lag {:?} err {:?}", i.start_s, i.length_s, i.classes[0].total, i.in_flight_mean, i.generator.thread_cpu_s, i.lag, i.classes[0].errors)).unwrap();
    println!("{:?}\n{:?}", r.header, r.summary);
    let j = r.judge(0.95);
    println!("{:?}\n{:?} {:?}", j.all.throughput, j.little, j.faults);
}
