package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// worker is a processor as the parent sees it: a child process, which is this program once more.
type worker struct {
	name   string // P1, P2 ...
	cmd    *exec.Cmd
	in     *os.File // its standard input
	orders *json.Encoder
	gone   bool
}

// event is what happened to a worker: it has reported, it stands still, or it has ended.
type event struct {
	from    *worker
	report  *report
	stopped bool
	ended   string // how
}

// crew is all workers. Its methods are for one goroutine.
type crew struct {
	workers []*worker
	events  chan event
}

// hireCrew starts n processors, each with its setup. It returns what it has started also with an error.
func hireCrew(n int, s setup) (*crew, error) {
	c := &crew{events: make(chan event)}
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	for i := range n {
		w, err := c.hire(fmt.Sprintf("P%d", i+1), self)
		if err != nil {
			return c, fmt.Errorf("start a processor: %w", err)
		}
		w.send(s)
	}
	return c, nil
}

func (c *crew) hire(name, program string) (*worker, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	w := &worker{name: name, in: in, orders: json.NewEncoder(in), cmd: exec.Command(program, processorArg, name)}
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = theirIn, theirOut, os.Stderr

	read := make(chan struct{})
	err = start(w.cmd,
		func() { c.events <- event{from: w, stopped: true} },
		func(ended string) {
			<-read // its last reports come first
			c.events <- event{from: w, ended: ended}
		})
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if w.cmd.Process == nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	c.workers = append(c.workers, w)
	go func() {
		defer close(read)
		defer func() { _ = out.Close() }()
		c.read(w, out)
	}()
	return w, err
}

// read passes the worker's reports on until there are no more. What is not a report is shown.
func (c *crew) read(w *worker, out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r := &report{}
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			fmt.Fprintf(os.Stderr, "auction: %s says: %s\n", w.name, lines.Bytes())
			continue
		}
		c.events <- event{from: w, report: r}
	}
}

// send sends the worker a setup or an order. A pipe has room for it, also when the worker stands still.
// A worker that has ended is told by its event, not here.
func (w *worker) send(message any) { _ = w.orders.Encode(message) }

// took notes an event. Every event that is received must be given to it.
func (c *crew) took(e event) {
	if e.ended != "" {
		e.from.gone = true
	}
}

const leaveWithin = 3 * time.Second

// dismiss ends all workers: in order, by the end of their input; those that take too long, by force.
func (c *crew) dismiss() {
	for _, w := range c.workers {
		_ = w.in.Close()
		if !w.gone {
			resume(w.cmd.Process)
		}
	}
	limit := time.NewTimer(leaveWithin)
	defer limit.Stop()
	for forced := false; c.anyLeft(); {
		select {
		case e := <-c.events:
			c.took(e)
		case <-limit.C:
			if forced {
				return // not even a kill ends them; nothing can be done here
			}
			forced = true
			for _, w := range c.workers {
				if !w.gone {
					_ = w.cmd.Process.Kill()
				}
			}
			limit.Reset(leaveWithin)
		}
	}
}

func (c *crew) anyLeft() bool {
	for _, w := range c.workers {
		if !w.gone {
			return true
		}
	}
	return false
}
