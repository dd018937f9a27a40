package main

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/internal/testenv"
)

// startRedis has testenv start a server, which ends with this program at the latest, however that ends.
func startRedis() (url string, stop func() error, err error) {
	if !flag.Parsed() {
		// testenv asks package testing whether the run is a short one, and that looks at its flags.
		testing.Init()
		if err := flag.CommandLine.Parse(nil); err != nil {
			return "", nil, err
		}
	}
	p := &program{}
	defer func() {
		switch problem := recover().(type) {
		case nil:
		case startFailure:
			err = errors.Join(problem.error, p.cleanUp())
		default:
			panic(problem)
		}
	}()
	return testenv.NewRedis(p).URL(), p.cleanUp, nil
}

// program is to testenv what a test is: the few methods that are called to start a server and to stop
// it.
type program struct {
	testing.TB
	cleanups []func()
	errs     []error
}

type startFailure struct{ error }

func (*program) Helper() {}

func (p *program) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *program) Errorf(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (*program) Fatalf(format string, args ...any) {
	panic(startFailure{fmt.Errorf(format, args...)})
}

func (p *program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

func (p *program) cleanUp() error {
	for _, f := range p.cleanups {
		f()
	}
	p.cleanups = nil
	return errors.Join(p.errs...)
}
