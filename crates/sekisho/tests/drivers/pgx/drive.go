// pgx before the gate, as it comes: prepares each text that it asks, and speaks binary.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	all       = context.Background()
	clients   = number(os.Getenv("SEKISHO_CLIENTS"))
	table     = os.Getenv("SEKISHO_TABLE")
	isSession = os.Getenv("SEKISHO_MODE") == "session"
)

func number(text string) int {
	found, err := strconv.Atoi(text)
	must(err)
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func holds(condition bool, told ...any) {
	if !condition {
		panic(fmt.Sprint(told...))
	}
}

// fails holds that this is an error of the server's with this code.
func fails(err error, code string) {
	var told *pgconn.PgError
	holds(errors.As(err, &told) && told.Code == code, "wanted ", code, ", got ", err)
}

func nonce() string {
	bytes := make([]byte, 16)
	rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

func connect() *pgx.Conn {
	limited, done := context.WithTimeout(all, time.Minute)
	defer done()
	connection, err := pgx.Connect(limited, "")
	must(err)
	return connection
}

func leave(connection *pgx.Conn) { must(connection.Close(all)) }

func do(connection *pgx.Conn, text string, values ...any) {
	_, err := connection.Exec(all, text, values...)
	must(err)
}

func ask[T any](connection *pgx.Conn, text string, values ...any) T {
	var found T
	must(connection.QueryRow(all, text, values...).Scan(&found))
	return found
}

func texts(rows pgx.Rows, err error) []string {
	must(err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(err)
	slices.Sort(found)
	return found
}

// atOnce does the same for each client, with a connection of its own.
func atOnce(work func(connection *pgx.Conn, client int)) {
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			connection := connect()
			defer leave(connection)
			work(connection, client)
		})
	}
	group.Wait()
}

func transactions() {
	connection := connect()
	do(connection, "drop table if exists "+table)
	do(connection, "create table "+table+" (n int, x text)")
	leave(connection)
	insert := "insert into " + table + " values ($1, $2)"
	atOnce(func(connection *pgx.Conn, client int) {
		mine := []string{}
		for range 10 {
			must(pgx.BeginFunc(all, connection, func(open pgx.Tx) error {
				newest := nonce()
				mine = append(mine, newest)
				slices.Sort(mine)
				_, err := open.Exec(all, insert, client, newest)
				must(err)
				found := texts(open.Query(all, "select x from "+table+" where n = $1", client))
				holds(slices.Equal(found, mine), found, mine)
				return nil
			}))
		}
		open, err := connection.Begin(all)
		must(err)
		inner, err := open.Begin(all)
		must(err)
		_, err = inner.Exec(all, insert, client, nonce())
		must(err)
		must(inner.Rollback(all))
		must(open.Commit(all))
	})
	pool, err := pgxpool.New(all, "pool_max_conns=2")
	must(err)
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			mine, heard := nonce(), ""
			must(pool.QueryRow(all, "select $1::text", mine).Scan(&heard))
			holds(heard == mine, heard, mine)
		})
	}
	group.Wait()
	pool.Close()
	connection = connect()
	defer leave(connection)
	count := ask[int](connection, "select count(*) from "+table)
	holds(count == clients*10, count)
}

func prepared() {
	atOnce(func(connection *pgx.Conn, client int) {
		// The same name for another text in each.
		_, err := connection.Prepare(all, "own", fmt.Sprintf("select '%d ' || $1::text", client))
		must(err)
		for turn := range 30 {
			mine := nonce()
			heard := ask[string](connection, "select $1::text", mine)
			holds(heard == mine, heard, mine)
			holds(ask[int](connection, "select $1::int + 1", turn) == turn+1)
			heard = ask[string](connection, "own", mine)
			holds(heard == fmt.Sprint(client, " ", mine), heard, mine)
		}
		if isSession {
			count := ask[int](connection, "select count(*) from pg_prepared_statements")
			holds(count >= 3, count)
		}
		must(connection.Deallocate(all, "own"))
		_, err = connection.Prepare(all, "own", "select $1::text || 'again'")
		must(err)
		holds(ask[string](connection, "own", "once ") == "once again")
		must(connection.DeallocateAll(all))
		mine := nonce()
		holds(ask[string](connection, "select $1::text", mine) == mine)
	})
	// Its other ways to ask, and a cache that is too small.
	for _, how := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		config, err := pgx.ParseConfig("default_query_exec_mode=" + how)
		must(err)
		connection, err := pgx.ConnectConfig(all, config)
		must(err)
		for range 10 {
			mine := nonce()
			holds(ask[string](connection, "select $1::text", mine) == mine, how)
		}
		leave(connection)
	}
	connection, err := pgx.Connect(all, "statement_cache_capacity=3")
	must(err)
	for turn := range 30 {
		mine := nonce()
		holds(ask[string](connection, fmt.Sprintf("select '%d' || $1::text", turn), mine) == fmt.Sprint(turn, mine))
	}
	leave(connection)
}

func pipeline() {
	atOnce(func(connection *pgx.Conn, client int) {
		for range 5 {
			batch, mine, heard := &pgx.Batch{}, nonce(), 0
			for turn := range 20 {
				text := fmt.Sprintf("select '%d ' || $1::text", turn%3)
				batch.Queue(text, mine).QueryRow(func(row pgx.Row) error {
					var found string
					must(row.Scan(&found))
					holds(found == fmt.Sprint(turn%3, " ", mine), found, mine)
					heard++
					return nil
				})
			}
			must(connection.SendBatch(all, batch).Close())
			holds(heard == 20, heard)
		}
		wrong := &pgx.Batch{}
		wrong.Queue("select 1")
		wrong.Queue("select 1 / $1::int", 0)
		wrong.Queue("select 2")
		fails(connection.SendBatch(all, wrong).Close(), "22012")
		// A pipeline by hand, with several Syncs and a statement of its own.
		series := connection.PgConn().StartPipeline(all)
		series.SendPrepare("s", "select $1::text", nil)
		must(series.Sync())
		mine := []string{nonce(), nonce(), nonce()}
		for _, one := range mine {
			series.SendQueryPrepared("s", [][]byte{[]byte(one)}, nil, nil)
			must(series.Sync())
		}
		series.SendDeallocate("s")
		must(series.Sync())
		heard, syncs := []string{}, 0
		for syncs < 5 {
			result, err := series.GetResults()
			must(err)
			switch result := result.(type) {
			case *pgconn.ResultReader:
				read := result.Read()
				must(read.Err)
				heard = append(heard, string(read.Rows[0][0]))
			case *pgconn.PipelineSync:
				syncs++
			}
		}
		must(series.Close())
		holds(slices.Equal(heard, mine), heard, mine)
	})
}

func copying() {
	atOnce(func(connection *pgx.Conn, client int) {
		rows, mine := [][]any{}, []string{}
		for range 500 {
			mine = append(mine, nonce())
			rows = append(rows, []any{1000 + client, mine[len(mine)-1]})
		}
		count, err := connection.CopyFrom(all, pgx.Identifier{table}, []string{"n", "x"}, pgx.CopyFromRows(rows[:250]))
		must(err)
		holds(count == 250, count)
		lines := ""
		for _, row := range rows[250:] {
			lines += fmt.Sprintf("%v\t%v\n", row...)
		}
		raw := connection.PgConn()
		_, err = raw.CopyFrom(all, strings.NewReader(lines), "copy "+table+" from stdin")
		must(err)
		out := &bytes.Buffer{}
		_, err = raw.CopyTo(all, out, fmt.Sprintf("copy (select x from %s where n = %d) to stdout", table, 1000+client))
		must(err)
		heard := strings.Fields(out.String())
		slices.Sort(heard)
		slices.Sort(mine)
		holds(slices.Equal(heard, mine), len(heard), " of ", len(mine))
		_, err = raw.CopyFrom(all, strings.NewReader("1\n"), "copy "+table+" from stdin")
		fails(err, "22P04")
		holds(ask[string](connection, "select $1::text", mine[0]) == mine[0])
	})
}

func cancel() {
	mine, over := nonce(), atomic.Bool{}
	var group sync.WaitGroup
	group.Go(func() {
		connection := connect()
		defer leave(connection)
		for !over.Load() {
			var heard string
			must(connection.QueryRow(all, "select $1::text, pg_sleep(0.01)::text", mine).Scan(&heard, nil))
			holds(heard == mine, heard, mine)
		}
	})
	looking := connect()
	began := "select count(*) from pg_stat_activity where query like $1 and state = 'active'"
	like := "select pg\\_sleep(600), '" + mine + "%"
	sleep := "select pg_sleep(600), '" + mine + "'"
	sleeping := connect()
	for range 3 {
		ended := make(chan error)
		go func() {
			_, err := sleeping.Exec(all, sleep)
			ended <- err
		}()
		for ask[int](looking, began, like) != 1 {
			time.Sleep(10 * time.Millisecond)
		}
		must(sleeping.PgConn().CancelRequest(all))
		fails(<-ended, "57014")
		holds(ask[string](sleeping, "select $1::text", mine) == mine)
	}
	leave(sleeping)
	// A context that ends closes the connection, and the server must not go on for nobody.
	sleeping = connect()
	limited, done := context.WithCancel(all)
	ended := make(chan error)
	go func() {
		_, err := sleeping.Exec(limited, sleep)
		ended <- err
	}()
	for ask[int](looking, began, like) != 1 {
		time.Sleep(10 * time.Millisecond)
	}
	done()
	holds(<-ended != nil, "it was not ended")
	for ask[int](looking, began, like) != 0 {
		time.Sleep(10 * time.Millisecond)
	}
	over.Store(true)
	group.Wait()
	leave(looking)
}

func wrong() {
	atOnce(func(connection *pgx.Conn, client int) {
		mine := nonce()
		for _, one := range [][2]string{{"selec", "42601"}, {"select 1 / 0", "22012"}, {"select * from nothing_such", "42P01"}} {
			open, err := connection.Begin(all)
			must(err)
			holds(ask[string](connection, "select $1::text", mine) == mine)
			_, err = open.Exec(all, one[0])
			fails(err, one[1])
			_, err = open.Exec(all, "select $1::text", mine)
			fails(err, "25P02")
			must(open.Rollback(all))
		}
		holds(ask[string](connection, "select $1::text", mine) == mine)
	})
}

func types() {
	atOnce(func(connection *pgx.Conn, client int) {
		moment := time.Date(2026, 11, 22, 18, 5, 7, 123456000, time.UTC)
		long, raw := strings.Repeat("x", 300_000), []byte{0, 1, 2, 255, '\\', '\''}
		var small int32
		var large int64
		var real float64
		var is bool
		var nothing *string
		var text, gotLong, exact, id string
		var gotRaw []byte
		var at time.Time
		var many []*int32
		var words []string
		var object map[string]any
		asked := "select $1::int4, $2::int8, $3::float8, $4::bool, $5::text, $6::text, $7::bytea, $8::numeric::text, " +
			"$9::timestamptz, $10::uuid::text, $11::int4[], $12::text[], $13::text, $14::jsonb"
		wanted := "ä € \U0001f980 'quoted' \\"
		seven, of := int32(7), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
		must(connection.QueryRow(all, asked, 7, int64(1)<<40, 1.5, true, nil, wanted, raw,
			"12345678901234567890.0123456789", moment, of, []*int32{&seven, nil}, []string{"a", "b,c", "\""}, long,
			map[string]any{"a": "b"}).Scan(&small, &large, &real, &is, &nothing, &text, &gotRaw, &exact, &at, &id,
			&many, &words, &gotLong, &object))
		holds(small == 7 && large == 1<<40 && real == 1.5 && is && nothing == nil, small, large, real, is)
		holds(text == wanted && bytes.Equal(gotRaw, raw) && exact == "12345678901234567890.0123456789", text)
		holds(at.Equal(moment) && id == of && gotLong == long, at, id)
		holds(*many[0] == 7 && many[1] == nil && slices.Equal(words, []string{"a", "b,c", "\""}), many, words)
		holds(object["a"] == "b", object)
	})
}

func notify() {
	listening, telling := connect(), connect()
	do(listening, "listen "+table)
	for range 3 {
		mine := nonce()
		do(telling, "select pg_notify($1, $2)", table, mine)
		limited, done := context.WithTimeout(all, time.Minute)
		heard, err := listening.WaitForNotification(limited)
		must(err)
		done()
		holds(heard.Payload == mine, heard.Payload, mine)
	}
	do(listening, "unlisten *")
	leave(listening)
	leave(telling)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "refused" {
		refusals()
		return
	}
	for _, check := range []struct {
		name string
		run  func()
	}{
		{"transactions", transactions}, {"prepared", prepared}, {"pipeline", pipeline}, {"copy", copying},
		{"cancel", cancel}, {"error", wrong}, {"types", types}, {"notify", notify},
	} {
		check.run()
		fmt.Println("ok", check.name)
	}
}
