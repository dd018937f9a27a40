package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/lock/driver"
)

// Run judges a driver: the protocol of package driver first, then what package lock makes of it. Of the
// optional abilities it judges those that the driver has.
//
// fresh is called once for each case, and once more to see what the driver can do; it may return drivers
// on one store: the suite uses resource names of its own. Cases run in parallel.
func Run(t *testing.T, fresh func(t *testing.T) driver.Driver) {
	for _, c := range casesFor(fresh(t)) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			judge(t, fresh(t), c)
		})
	}
}

// testCase is one thing that a driver must do.
type testCase struct {
	name string
	run  func(s *suite)
}

// caseFor is how long a case may take.
const caseFor = 30 * time.Second

// judge runs a case on d.
func judge(t tb, d driver.Driver, c testCase) {
	ctx, cancel := context.WithTimeout(context.Background(), caseFor)
	t.Cleanup(cancel)
	step := max(d.Features().TTLStep, time.Millisecond)
	c.run(&suite{
		tb: t, ctx: ctx, d: d,
		short: max(300*time.Millisecond, step), long: 20 * time.Second,
		resource: "locktest/" + uuid.NewString(),
	})
}

// abilities are the optional ones that a driver has.
type abilities struct{ wait, resume, raise, breaks, inspect bool }

func abilitiesOf(d driver.Driver) (can abilities) {
	_, can.wait = d.(driver.Waiter)
	_, can.resume = d.(driver.Resumer)
	_, can.raise = d.(driver.Raiser)
	_, can.breaks = d.(driver.Breaker)
	_, can.inspect = d.(driver.Inspector)
	return can
}

// casesFor returns the cases for all that d can do.
func casesFor(d driver.Driver) []testCase {
	can := abilitiesOf(d)
	var cases []testCase
	for _, group := range []struct {
		applies bool
		cases   func() []testCase
	}{
		{true, protocolCases},
		{can.wait, queueCases},
		{can.wait, turnCases},
		{can.wait, leaveCases},
		{can.resume, resumeCases},
		{can.raise, raiseCases},
		{can.breaks, breakCases},
		{can.breaks && can.wait, breakQueueCases},
		{can.inspect, inspectCases},
		{can.inspect && can.wait, inspectQueueCases},

		{true, lockerCases},
		{true, setCases},
		{can.wait, lockerQueueCases},
		{can.resume, lockerResumeCases},
		{can.raise, lockerRaiseCases},
		{can.breaks, lockerBreakCases},
		{can.breaks && can.wait, lockerBreakQueueCases},
		{can.inspect, lockerInspectCases},
	} {
		if group.applies {
			cases = append(cases, group.cases()...)
		}
	}
	if !can.resume || !can.raise || !can.breaks || !can.inspect {
		cases = append(cases, testCase{"Locker/WhatIsMissingIsSaid", func(s *suite) { s.whatIsMissingIsSaid(can) }})
	}
	return cases
}
