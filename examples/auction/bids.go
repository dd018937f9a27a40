package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ringfence/ringfence/fence"
)

//go:embed bids.ndjson
var shippedBids []byte

const (
	maxLine   = 64 << 10 // bytes
	maxBids   = 1_000_000
	maxBidder = 64 // bytes
)

// bid is one line of the input that is well-formed.
type bid struct {
	Line    int    `json:"line"`
	Auction string `json:"auction"`
	Bidder  string `json:"bidder"`
	Amount  int64  `json:"amount"`
}

// badLine is a line that is not a bid.
type badLine struct {
	Line int
	Why  error
}

// readBids reads bids, one JSON object a line. A line that is no bid is skipped and told; empty lines
// are just skipped. The error is the reader's. prefix is what precedes an auction in the name of its
// resource.
func readBids(r io.Reader, prefix string) (bids []bid, bad []badLine, err error) {
	in := bufio.NewReaderSize(r, maxLine+1) // with the newline
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		switch {
		case tooLong:
			bad = append(bad, badLine{number, fmt.Errorf("it has more than %d bytes", maxLine)})
		case len(bytes.TrimSpace(line)) > 0:
			b, why := parseBid(line, prefix)
			if why != nil {
				bad = append(bad, badLine{number, why})
				break
			}
			b.Line = number
			bids = append(bids, b)
		}
		switch {
		case errors.Is(err, io.EOF):
			return bids, bad, nil
		case number > maxBids:
			return nil, nil, fmt.Errorf("more than %d lines", maxBids)
		}
	}
}

// parseBid reads {"auction":"7","bidder":"ann","amount":120}: these three fields, each once, no other.
func parseBid(line []byte, prefix string) (bid, error) {
	if !utf8.Valid(line) {
		return bid{}, errors.New("it is not valid UTF-8")
	}
	fields, err := objectFields(line)
	if err != nil {
		return bid{}, err
	}
	var b bid
	for _, field := range []struct {
		name string
		want string
		into any
	}{
		{"auction", "a string", &b.Auction},
		{"bidder", "a string", &b.Bidder},
		{"amount", "a whole number from 1 to 9223372036854775807", &b.Amount},
	} {
		raw, ok := fields[field.name]
		switch {
		case !ok:
			return bid{}, fmt.Errorf("the field %q is missing", field.name)
		case string(raw) == "null", json.Unmarshal(raw, field.into) != nil:
			return bid{}, fmt.Errorf("%s is %.40s, want %s", field.name, printable(raw), field.want)
		}
		delete(fields, field.name)
	}
	for name := range fields {
		return bid{}, fmt.Errorf("the field %.40q is unknown: want auction, bidder and amount", name)
	}
	if b.Amount <= 0 {
		return bid{}, fmt.Errorf("amount is %d, want 1 or more", b.Amount)
	}
	if err := nameable("auction", b.Auction, fence.MaxResource-len(prefix)); err != nil {
		return bid{}, err
	}
	return b, nameable("bidder", b.Bidder, maxBidder)
}

// objectFields returns the fields of the one JSON object in line. A field that is there twice is an
// error: encoding/json would take the last one, other readers the first.
func objectFields(line []byte) (map[string]json.RawMessage, error) {
	in := json.NewDecoder(bytes.NewReader(line))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return nil, notJSON(err)
	}
	fields := map[string]json.RawMessage{}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		text, _ := name.(string) // the decoder lets nothing else be a name
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, notJSON(err)
		}
		if _, twice := fields[text]; twice {
			return nil, fmt.Errorf("the field %.40q is there twice", text)
		}
		fields[text] = value
	}
	if _, err := in.Token(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return fields, nil
}

func notJSON(err error) error {
	switch {
	case err == nil:
		return errors.New("it is not a JSON object")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is not JSON: it ends too early")
	default:
		return fmt.Errorf("it is not JSON: %w", err)
	}
}

// nameable returns nil if s can be printed and, after the prefix, name a resource. U+FFFD stands where
// JSON had half of a surrogate pair: two names could become one.
func nameable(field, s string, most int) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", field)
	case len(s) > most:
		return fmt.Errorf("%s has %d bytes, want at most %d", field, len(s), most)
	case strings.ContainsFunc(s, odd):
		return fmt.Errorf("%s is %.60q, want printable characters", field, s)
	}
	return nil
}

func printable(raw []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(raw))
}

// auctionsOf returns the auctions in the order of their first bids.
func auctionsOf(bids []bid) []string {
	var names []string
	seen := map[string]bool{}
	for _, b := range bids {
		if !seen[b.Auction] {
			seen[b.Auction] = true
			names = append(names, b.Auction)
		}
	}
	return names
}
