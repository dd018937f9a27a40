package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// screen is what the user sees: a timeline, and below it, on a terminal, a line that moves.
type screen struct {
	out   io.Writer
	live  bool // out is a terminal
	blank bool // the last line is empty
	start time.Time
	told  int       // fifths of the progress that have been printed; not live
	drawn time.Time // when the moving line was; live
	err   error     // the first that out has returned
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		s.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

func (s *screen) print(text string) {
	if _, err := io.WriteString(s.out, text); err != nil && s.err == nil {
		s.err = err
	}
}

// wipe is what removes the moving line.
func (s *screen) wipe() string {
	if s.live {
		return "\r\x1b[K"
	}
	return ""
}

// say prints a line.
func (s *screen) say(format string, args ...any) {
	s.print(s.wipe() + fmt.Sprintf(format, args...) + "\n")
	s.blank = false
}

// gap prints an empty line, unless the last one is.
func (s *screen) gap() {
	if !s.blank {
		s.say("")
		s.blank = true
	}
}

// note prints a line of the timeline: what happened, and to whom, if that is anybody.
func (s *screen) note(who, what, format string, args ...any) {
	if who == "" {
		s.say("%6.2fs  %s", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
		return
	}
	s.say("%6.2fs  %-3s  %-8s  %s", time.Since(s.start).Seconds(), who, what, fmt.Sprintf(format, args...))
}

// progress shows how many bids are done: at once on a terminal, else every fifth of them.
func (s *screen) progress(done, all int) {
	const steps, width, redraw = 5, 40, 50 * time.Millisecond
	switch {
	case s.live && done == all:
		s.note("", "", "%d of %d bids", done, all)
	case s.live && time.Since(s.drawn) < redraw:
	case s.live:
		s.drawn = time.Now()
		bar := strings.Repeat("#", width*done/all)
		s.print(fmt.Sprintf("%s%6.2fs  [%-*s] %d of %d bids", s.wipe(), time.Since(s.start).Seconds(), width, bar, done, all))
	case steps*done/all > s.told:
		s.told = steps * done / all
		s.note("", "", "%d of %d bids", done, all)
	}
}
