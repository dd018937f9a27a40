//go:build unix

package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// respLimit is how long a Redis server may take for one answer.
const respLimit = 5 * time.Second

// resp is a connection to a Redis server or sentinel: as much of its protocol as asks a few questions
// (https://redis.io/docs/latest/develop/reference/protocol-spec/, version 2).
type resp struct {
	net.Conn
	in *bufio.Reader
}

// respError is an answer that begins with a minus, such as "MOVED 42 127.0.0.1:20001".
type respError string

func (e respError) Error() string { return fmt.Sprintf("the server says %q", string(e)) }

func dialResp(addr string) (*resp, error) {
	conn, err := net.DialTimeout("tcp", addr, respLimit)
	if err != nil {
		return nil, err
	}
	return &resp{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// ask sends one command to addr over a connection of its own.
func ask(addr string, args ...string) (any, error) {
	c, err := dialResp(addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.ask(args...)
}

// askText is ask for an answer that is one string.
func askText(addr string, args ...string) (string, error) {
	answer, err := ask(addr, args...)
	if err != nil {
		return "", err
	}
	text, isText := answer.(string)
	if !isText {
		return "", fmt.Errorf("%s at %s: the answer is %v, not a text", strings.Join(args, " "), addr, answer)
	}
	return text, nil
}

// ask sends one command and returns the answer: a string, an int64, nil, or an []any of these. An
// error names the command and the server.
func (c *resp) ask(args ...string) (any, error) {
	answer, err := c.exchange(args)
	if err != nil {
		const enough = 4 // words that tell the command
		err = fmt.Errorf("%s at %v: %w", strings.Join(args[:min(enough, len(args))], " "), c.RemoteAddr(), err)
	}
	return answer, err
}

func (c *resp) exchange(args []string) (any, error) {
	if err := c.SetDeadline(time.Now().Add(respLimit)); err != nil {
		return nil, err
	}
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c, command.String()); err != nil {
		return nil, err
	}
	return readAnswer(c.in)
}

func readAnswer(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an answer without a type")
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, respError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	const most = 512 << 20 // the longest string that Redis has
	switch {
	case err != nil || kind != ':' && n > most:
		return nil, fmt.Errorf("not an answer of version 2: %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil // no such string or array
	case kind == '$':
		body := make([]byte, n+2) // the line's end as well
		if _, err := io.ReadFull(in, body); err != nil {
			return nil, err
		}
		return string(body[:n]), nil
	case kind == '*':
		items := make([]any, n)
		for i := range items {
			if items[i], err = readAnswer(in); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("not an answer of version 2: %q", line)
}

// infoField is the value of a "name:value" line in the answer to INFO or CLUSTER INFO, "" if it has none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimRight(value, "\r\n")
		}
	}
	return ""
}

// texts is the answer as strings; what is none becomes "".
func texts(answer any) []string {
	items, _ := answer.([]any)
	list := make([]string, len(items))
	for i, item := range items {
		list[i], _ = item.(string)
	}
	return list
}

// pairs is an answer that alternates names and values.
func pairs(answer any) map[string]string {
	list := texts(answer)
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}
