//go:build unix

package testenv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

// Schema creates a fresh schema and returns its name (a letter and hex digits: needs no quotes) and a
// URL whose connections have it as their whole search_path. At the end of the test the schema is
// dropped with all that is in it; a session that still holds a lock in it is ended.
func (s *PostgresServer) Schema(tb testing.TB) (address, schema string) {
	tb.Helper()
	schema = freshName("t")
	if err := s.run(fmt.Sprintf(`CREATE SCHEMA "%s"`, schema)); err != nil {
		tb.Fatalf("testenv: create schema %s: %v", schema, err)
	}
	if !s.private { // a private server goes as a whole, and may be down by then
		tb.Cleanup(func() {
			if err := s.run(fmt.Sprintf(dropSchema, schema)); err != nil {
				tb.Errorf("testenv: drop schema %s: %v", schema, err)
			}
		})
	}
	address, err := edit(s.url, func(q url.Values) {
		// The one way that libpq and pgx both take.
		q.Set("options", strings.TrimSpace(q.Get("options")+" -csearch_path="+schema))
	})
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return address, schema
}

const dropSchema = `
SELECT pg_terminate_backend(pid) FROM (
	SELECT DISTINCT l.pid FROM pg_locks l
	JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
	JOIN pg_class c ON c.oid = l.relation
	JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = '%[1]s'
	WHERE l.pid <> pg_backend_pid()) holders;
SET lock_timeout = '10s';
SET client_min_messages = warning;
DROP SCHEMA "%[1]s" CASCADE;
`

// run runs statements. An external server may want a password or TLS, so there psql does it.
func (s *PostgresServer) run(statements string) error {
	if s.daemon == nil {
		return psql(s.url, statements)
	}
	w, err := dialWire(s.url, startLimit)
	if err != nil {
		return errors.Join(err, s.daemon.check())
	}
	defer func() { _ = w.Close() }()
	if err := w.ask(statements); err != nil {
		return err
	}
	_, err = w.answer(startLimit)
	return err
}

func psql(address, statements string) error {
	path, err := psqlClient.find()
	if err != nil {
		return err
	}
	address, err = edit(address, func(q url.Values) {
		for key := range q { // settings that only pgx knows
			if strings.HasPrefix(key, "pool_") || strings.HasSuffix(key, "_cache_capacity") || key == "default_query_exec_mode" {
				q.Del(key)
			}
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", address)
	cmd.Stdin = strings.NewReader(statements)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w: %s", err, lastLines(string(out), 10))
	}
	return nil
}

// edit returns the URL with other settings. Its error does not show the URL: it may hold a password.
func edit(address string, change func(url.Values)) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the PostgreSQL URL is malformed")
	}
	q := u.Query()
	change(q)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq takes a plus for a plus
	return u.String(), nil
}

func freshName(prefix string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}
