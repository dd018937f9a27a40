package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseOptions(t *testing.T) {
	o, err := parseOptions(nil, &strings.Builder{})
	require.NoError(t, err)
	assert.Equal(t, options{processors: 4, pauses: 2, seed: 1, ttl: time.Second, guard: true}, o)

	o, err = parseOptions(strings.Fields("-bids - -processors 2 -pauses=0 -seed 7 -ttl 250ms -guard off -redis r -postgres p"), &strings.Builder{})
	require.NoError(t, err)
	assert.Equal(t, options{bids: "-", processors: 2, seed: 7, ttl: 250 * time.Millisecond, redis: "r", postgres: "p"}, o)
}

func TestParseOptions_RefusesWithTheReason(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"-processors 0", "-processors=0: want 1 to 32"},
		{"-processors 33", "-processors=33: want 1 to 32"},
		{"-processors x", "-processors"},
		{"-processors 1", "want 2 or more"},
		{"-pauses -1", "-pauses=-1: want 0 to 1000"},
		{"-seed -1", "-seed"},
		{"-ttl 1", "-ttl: want a duration, as 500ms or 2s"},
		{"-ttl 99ms", "-ttl=99ms: want 100ms to 1m0s"},
		{"-ttl -1s", "-ttl=-1s"},
		{"-ttl 1500500us", "whole milliseconds"},
		{"-guard maybe", "-guard=maybe: want on or off"},
		{"-redis redis://h", "-redis and -postgres go together"},
		{"-postgres postgres://h/d", "-redis and -postgres go together"},
		{"-bids=", "-bids is empty"},
		{"-redis= -postgres=", "-redis is empty"},
		{"-colour", "not defined: -colour"},
		{"bids.ndjson", `unexpected argument "bids.ndjson"`},
	} {
		t.Run(row.args, func(t *testing.T) {
			_, err := parseOptions(strings.Fields(row.args), &strings.Builder{})
			assert.ErrorContains(t, err, row.want)
		})
	}
	_, err := parseOptions([]string{"-processors=1", "-pauses=0"}, &strings.Builder{})
	assert.NoError(t, err)
}

func TestParseOptions_HelpNamesEveryFlagAndStatus(t *testing.T) {
	var out strings.Builder
	_, err := parseOptions([]string{"-h"}, &out)
	require.ErrorIs(t, err, errHelp)
	for _, word := range []string{"-bids", "-processors", "-pauses", "-seed", "-ttl", "-guard", "-redis", "-postgres", "0 ", "1 ", "2 ", "3 ", "4 ", "130 "} {
		assert.Contains(t, out.String(), "\n  "+word)
	}
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len(line), 101, line)
	}
	assert.NotContains(t, out.String(), "%!")
}
