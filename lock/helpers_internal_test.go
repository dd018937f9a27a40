package lock

import "github.com/ringfence/ringfence/lock/driver"

// noDriver is for tests that call none.
type noDriver struct{ driver.Driver }

func (noDriver) Features() driver.Features { return driver.Features{} }
