package redislock

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// script is a Lua script. The server knows it by its digest once it was sent there by its source.
type script struct{ source, digest any } // strings, as arguments of a command

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, digest: hex.EncodeToString(sum[:])}
}

var (
	//go:embed token.lua
	tokenPart string
	//go:embed turn.lua
	turnPart string
	//go:embed place.lua
	placePart string

	//go:embed acquire.lua
	acquirePart string
	//go:embed renew.lua
	renewPart string
	//go:embed release.lua
	releasePart string
	//go:embed leave.lua
	leavePart string
	//go:embed resume.lua
	resumePart string
	//go:embed break.lua
	breakPart string
	//go:embed raise.lua
	raisePart string
	//go:embed advance.lua
	advancePart string
	//go:embed inspect.lua
	inspectPart string
)

// What scripts share stands before them.
var (
	acquireScript = newScript(tokenPart + turnPart + placePart + acquirePart)
	renewScript   = newScript(renewPart)
	releaseScript = newScript(turnPart + releasePart)
	leaveScript   = newScript(turnPart + leavePart)
	resumeScript  = newScript(tokenPart + resumePart)
	breakScript   = newScript(tokenPart + breakPart)
	raiseScript   = newScript(tokenPart + raisePart)
	advanceScript = newScript(tokenPart + advancePart)
	inspectScript = newScript(inspectPart)
)
