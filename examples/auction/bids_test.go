package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

const prefix = "auction/"

func TestReadBids_TakesGoodLinesAndTellsTheOthers(t *testing.T) {
	bids, bad, err := readBids(strings.NewReader(
		"\ufeff"+`{"auction":"7","bidder":"ann","amount":120}`+"\r\n"+
			"\n"+
			"nope\n"+
			` { "amount" : 9223372036854775807 , "bidder" : "Zoë B." , "auction" : "12/a" } `+"\n"+
			`{"auction":"`+strings.Repeat("x", maxLine)+`"}`+"\n"+
			"   \n"+
			`{"auction":"7","bidder":"bob","amount":1}`), prefix)
	require.NoError(t, err)
	assert.Equal(t, []bid{{1, "7", "ann", 120}, {4, "12/a", "Zoë B.", 9223372036854775807}, {7, "7", "bob", 1}}, bids)
	require.Len(t, bad, 2)
	assert.Equal(t, 3, bad[0].Line)
	assert.Equal(t, badLine{5, errors.New("it has more than 65536 bytes")}, bad[1])
}

func TestReadBids_LineOfTheGreatestLength(t *testing.T) {
	line := `{"auction":"7","bidder":"ann","amount":120}`
	line += strings.Repeat(" ", maxLine-len(line))
	bids, bad, err := readBids(strings.NewReader(line+"\n"+line+" \n"+line), prefix)
	require.NoError(t, err)
	assert.Equal(t, []bid{{1, "7", "ann", 120}, {3, "7", "ann", 120}}, bids)
	assert.Equal(t, []badLine{{2, errors.New("it has more than 65536 bytes")}}, bad)
}

func TestReadBids_FailsWithTheReader(t *testing.T) {
	broken := errors.New("disk on fire")
	_, _, err := readBids(io.MultiReader(strings.NewReader("\n\n"), iotest.ErrReader(broken)), prefix)
	require.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "line 3")
}

func TestReadBids_HasAnEnd(t *testing.T) {
	_, _, err := readBids(endless{}, prefix)
	assert.ErrorContains(t, err, "more than 1000000 lines")
}

// endless is a reader of empty lines.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestParseBid_SaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{`nope`, "not JSON"},
		{`{"auction":"7"`, "ends too early"},
		{`{"auction":"7",}`, "not JSON"},
		{`[1,2]`, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`{}`, `"auction" is missing`},
		{`{"auction":"7","bidder":"ann"}`, `"amount" is missing`},
		{`{"auction":"7","Bidder":"ann","amount":1}`, `"bidder" is missing`},
		{`{"auction":"7","bidder":"ann","amount":1,"note":"x"}`, `"note" is unknown`},
		{`{"auction":"7","auction":"8","bidder":"ann","amount":1}`, `"auction" is there twice`},
		{`{"auction":"7","bidder":"ann","amount":1} {}`, "something follows"},
		{`{"auction":7,"bidder":"ann","amount":1}`, "auction is 7, want a string"},
		{`{"auction":"7","bidder":null,"amount":1}`, "bidder is null"},
		{`{"auction":"7","bidder":"ann","amount":"1"}`, `amount is "1", want a whole number`},
		{`{"auction":"7","bidder":"ann","amount":1.5}`, "amount is 1.5"},
		{`{"auction":"7","bidder":"ann","amount":9223372036854775808}`, "amount is 9223372036854775808"},
		{`{"auction":"7","bidder":"ann","amount":0}`, "amount is 0"},
		{`{"auction":"7","bidder":"ann","amount":-5}`, "amount is -5"},
		{`{"auction":"","bidder":"ann","amount":1}`, "auction is empty"},
		{`{"auction":"7","bidder":"","amount":1}`, "bidder is empty"},
		{`{"auction":"7","bidder":"a\u001b[2Jnn","amount":1}`, "printable"},
		{`{"auction":"7\u0000","bidder":"ann","amount":1}`, "printable"},
		{`{"auction":"7","bidder":"ann\u202e","amount":1}`, "printable"},
		{`{"auction":"\ud800","bidder":"ann","amount":1}`, "printable"},
		{`{"auction":"7","bidder":"` + strings.Repeat("a", maxBidder+1) + `","amount":1}`, "bidder has 65 bytes, want at most 64"},
		{`{"auction":"` + strings.Repeat("a", fence.MaxResource-len(prefix)+1) + `","bidder":"ann","amount":1}`, "auction has 505 bytes, want at most 504"},
		{"{\"auction\":\"\xff\",\"bidder\":\"ann\",\"amount\":1}", "not valid UTF-8"},
	} {
		t.Run(row.want, func(t *testing.T) {
			b, err := parseBid([]byte(row.line), prefix)
			assert.ErrorContains(t, err, row.want)
			assert.Zero(t, b.Line)
		})
	}
}

func TestShippedBids(t *testing.T) {
	bids, bad, err := readBids(bytes.NewReader(shippedBids), prefix)
	require.NoError(t, err)
	assert.Empty(t, bad)
	assert.Len(t, bids, 500)
	assert.Len(t, auctionsOf(bids), 5)
	for auction, best := range highestBids(bids) {
		assert.Len(t, best, 1, "auction %s has one highest bid", auction)
	}
}

func FuzzParseBid(f *testing.F) {
	for _, line := range []string{
		`{"auction":"7","bidder":"ann","amount":120}`, `{"amount":1e2}`, `{"auction":"\ud800\udc00"`, `{{`, `{"a":{"b":[]}}`, "\x00",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		b, err := parseBid(line, prefix)
		if err != nil {
			for _, r := range err.Error() {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q is told as %q", line, err)
				}
			}
			return
		}
		if b.Amount <= 0 || b.Bidder == "" || !utf8.ValidString(b.Auction) || fence.ValidateResource(prefix+b.Auction) != nil {
			t.Fatalf("%q gives %+v", line, b)
		}
		text, err := json.Marshal(map[string]any{"auction": b.Auction, "bidder": b.Bidder, "amount": b.Amount})
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseBid(text, prefix)
		if err != nil || again != b {
			t.Fatalf("%+v becomes %+v, %v", b, again, err)
		}
	})
}
