package main

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// The parent and its processors talk in JSON lines over the processor's standard input and output. A
// processor that reads the end of its input ends.

// setup is the first line that a processor reads. It holds passwords, so it is not on the command line.
type setup struct {
	Locks     lockAddress   `json:"locks"`
	Rows      rowsAddress   `json:"rows"`
	Prefix    string        `json:"prefix"` // precedes an auction in the name of its resource
	TTL       time.Duration `json:"ttl"`
	Guard     bool          `json:"guard"`
	Simulated bool          `json:"simulated"` // there is no SIGSTOP here
}

// order is every further line. Each order of a bid is answered by reports, the last of which is applied,
// outbid or failed.
type order struct {
	Bid   *bid `json:"bid,omitempty"`
	Pause bool `json:"pause,omitempty"` // report brink between the read and the write, and wait for go
	Go    bool `json:"go,omitempty"`
}

// The kinds of reports.
const (
	ready    = "ready"    // set up, give me bids
	acquired = "acquired" // Token: a lease, sealed if there is a guard
	brink    = "brink"    // Token, Standing: has read that, and is about to write
	refused  = "refused"  // Token, Mark, Late: the guard has refused the write; the bid is tried again
	applied  = "applied"  // Token: the bid is written
	outbid   = "outbid"   // Token, Standing: the bid is not higher than that
	failed   = "failed"   // Text: the bid could not be decided
)

// report is a line of a processor.
type report struct {
	Kind     string        `json:"kind"`
	Token    fence.Token   `json:"token"`
	Mark     fence.Token   `json:"mark"`
	Late     time.Duration `json:"late,omitempty"` // since the lease ran out
	Standing standing      `json:"standing"`
	Text     string        `json:"text,omitempty"`
}
