package conv

import "github.com/petrel-im/petrel/internal/sabotage"

// The rules of this package that the sabotage build can break.
var (
	sabotageAdmitsFirst     = sabotage.On("admit-before-dedupe")
	sabotageForgets         = sabotage.On("forget-dedupe")
	sabotageReadsOn         = sabotage.On("read-past-head")
	sabotageReusesSeq       = sabotage.On("reuse-seq")
	sabotageChoosesEarly    = sabotage.On("recipients-before-commit")
	sabotageAcksCursorEarly = sabotage.On("ack-before-flush")
	sabotageSkipsAdmission  = sabotage.On("skip-membership")
	sabotageSkipsRoles      = sabotage.On("skip-roles")
	sabotageAsksOnce        = sabotage.On("recipients-of-the-batch")
	sabotageLeavesTargets   = sabotage.On("leave-targets")
	sabotageKeepsEdits      = sabotage.On("keep-former-edits")
	sabotageForgetsCursors  = sabotage.On("sync-without-cursors")
	sabotageShowsRewrites   = sabotage.On("show-rewrites-early")
	sabotageTrustsMemory    = sabotage.On("trust-memory")
	sabotageForgetsFan      = sabotage.On("no-refan")
	sabotageRefansToAll     = sabotage.On("refan-to-all")
	sabotagePassesFenced    = sabotage.On("pass-fenced")
	sabotageAsksUnmarked    = sabotage.On("ask-without-mark")
	sabotageAsksAhead       = sabotage.On("ask-ahead")
	sabotagePassesLane      = sabotage.On("pass-lane")
	sabotageAsksBehind      = sabotage.On("ask-again-behind")
	sabotageRefusesUnknown  = sabotage.On("refuse-unknown")
)
