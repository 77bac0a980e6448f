package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// refusals: before a gate that refuses, a connection can be used still.
func refusals() {
	holder, refused := connect(), connect()
	process := refused.PgConn().PID()
	for _, check := range []struct {
		name string
		run  func() error
	}{
		{"simple", func() error {
			_, err := refused.Exec(all, "select 'simple'", pgx.QueryExecModeSimpleProtocol)
			return err
		}},
		{"prepared", func() error {
			var heard string
			return refused.QueryRow(all, "select $1::text", "prepared").Scan(&heard)
		}},
		{"pipeline", func() error {
			batch := &pgx.Batch{}
			for turn := range 5 {
				batch.Queue("select $1::int", turn)
			}
			return refused.SendBatch(all, batch).Close()
		}},
		{"copy", func() error {
			out := &bytes.Buffer{}
			_, err := refused.PgConn().CopyTo(all, out, "copy (select 'copied') to stdout")
			holds(err != nil || out.String() == "copied\n", out.String())
			return err
		}},
	} {
		// The first time it is served, so that it has prepared what it prepares.
		for _, isFull := range []bool{false, true, true, false} {
			if isFull {
				do(holder, "begin")
			}
			err := check.run()
			if isFull {
				do(holder, "commit")
				fails(err, "53300")
				var told *pgconn.PgError
				errors.As(err, &told)
				holds(strings.Contains(told.Detail, "estimated wait"), told.Detail)
			} else {
				must(err)
			}
			raw := refused.PgConn()
			holds(!refused.IsClosed() && raw.TxStatus() == 'I', check.name, raw.TxStatus())
		}
		fmt.Println("ok", check.name)
	}
	holds(refused.PgConn().PID() == process, "it is another connection")
	leave(holder)
	leave(refused)
}
