//go:build unix

package testenv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// wire is a connection to a PostgreSQL server of ours, which asks for no password: as much of the
// protocol as runs a few statements (https://www.postgresql.org/docs/current/protocol.html). psql
// would do, but takes five times as long to start, for each schema of each test.
type wire struct{ net.Conn }

func dialWire(address string, limit time.Duration) (*wire, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", u.Host, limit)
	if err != nil {
		return nil, err
	}
	w := &wire{conn}
	if err := w.hello(u, limit); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

func (w *wire) hello(u *url.URL, limit time.Duration) error {
	const version3 = 3 << 16
	body := binary.BigEndian.AppendUint32(nil, version3)
	for _, s := range []string{
		"user", u.User.Username(), "database", strings.TrimPrefix(u.Path, "/"), "options", u.Query().Get("options"), "",
	} {
		body = append(append(body, s...), 0)
	}
	if _, err := w.Write(append(lengthOf(body), body...)); err != nil {
		return err
	}
	_, err := w.answer(limit)
	return err
}

// ask sends statements, which the server runs in one transaction unless they say otherwise.
func (w *wire) ask(sql string) error {
	body := append([]byte(sql), 0)
	_, err := w.Write(append(append([]byte{'Q'}, lengthOf(body)...), body...))
	return err
}

// answer reads until the server is ready for the next question. It returns the rows - values with
// commas between them, rows with semicolons - or the server's error.
func (w *wire) answer(limit time.Duration) (string, error) {
	if err := w.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	var rows []string
	var failed error
	for {
		var head [5]byte
		if _, err := io.ReadFull(w, head[:]); err != nil {
			return "", errors.Join(failed, err)
		}
		body := make([]byte, max(4, binary.BigEndian.Uint32(head[1:]))-4)
		if _, err := io.ReadFull(w, body); err != nil {
			return "", errors.Join(failed, err)
		}
		switch head[0] {
		case 'D':
			rows = append(rows, row(body))
		case 'E':
			failed = fmt.Errorf("PostgreSQL says %q", strings.Split(string(body), "\x00"))
		case 'Z':
			return strings.Join(rows, ";"), failed
		}
	}
}

func row(body []byte) string {
	var values []string
	rest := body[2:]
	for range binary.BigEndian.Uint16(body) {
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n < 0 {
			values = append(values, "NULL")
			continue
		}
		values = append(values, string(rest[:n]))
		rest = rest[n:]
	}
	return strings.Join(values, ",")
}

// lengthOf is the length field of a message, which counts itself.
func lengthOf(body []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
}
