package redislock

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

func FuzzParseReply(f *testing.F) {
	for _, s := range []string{
		"granted 1 100", "granted 9223372036854775807 -1", "granted 5 9223372036854775807", "granted", "granted 0 5", "granted 5",
		"held 100", "held -1", "held", "queued 100 1764600000000000 3", "queued -1 1 0", "queued 1 0 0", "queued 1 1 -1", "lost", "abandoned", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		g, err := parseReply(reply)
		if err == nil && (!g.Token.Valid() || g.TTL < 0) {
			t.Fatalf("parseReply(%q) granted token %d for %v", reply, g.Token, g.TTL)
		}
		var held *driver.Held
		if errors.As(err, &held) && (held.RetryAfter < 0 || !strings.HasPrefix(reply, "held ")) {
			t.Fatalf("parseReply(%q): %v", reply, err)
		}
		var queued *driver.Queued
		if errors.As(err, &queued) && (queued.RetryAfter < 0 || queued.Ticket <= 0 || queued.Ahead < 0) {
			t.Fatalf("parseReply(%q): %v", reply, err)
		}
	})
}

func FuzzParseLease(f *testing.F) {
	id := uuid.NewString()
	for _, s := range []string{id + " 17 a label", id, "released 17 x", "turn " + id, "turn", "", "released"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		l := parseLease(value)
		if l.held == l.turn || l.fingerprint == "" || (l.holder != uuid.Nil) != (l.held && l.token != 0 && l.fingerprint == fence.Fingerprint(l.holder)) && l.fingerprint != "none" {
			t.Fatalf("parseLease(%q) = %+v", value, l)
		}
		if l.token != 0 && !strings.Contains(value, " "+l.token.String()+" "+l.label) {
			t.Fatalf("parseLease(%q) = %+v", value, l)
		}
	})
}

func FuzzParseTurns(f *testing.F) {
	id := uuid.NewString()
	for _, s := range []string{id + " 0", id + " 0 " + id + " 250", id, id + " -1", "", " ", id + " 99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		parseTurns(message, func(turn driver.Turn) {
			if turn.After < 0 {
				t.Fatalf("parseTurns(%q): after %v", message, turn.After)
			}
		})
	})
}
