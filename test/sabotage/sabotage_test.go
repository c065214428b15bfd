//go:build sabotage

package sabotage

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const module = "github.com/petrel-im/petrel"

// guard is a suite, or a part of one.
type guard struct {
	pkg string // below the root of the module
	run string // of go test -run
}

// guards says which suites have to fail when a rule is switched off: each of
// them alone would notice.
var guards = map[string][]guard{
	"ack-before-sync": {
		{"internal/store/pebblestore", "^TestPowerCutsLoseNothingThatWasTold$"},
		{"internal/store/pebblestore", "^TestNothingIsAckedBeforeItsWitness$"},
	},
	"read-past-head":           {{"internal/conv", "^TestF1"}},
	"recipients-before-commit": {{"internal/conv", "^TestF2"}},
	"admit-before-dedupe": {
		{"internal/conv", "^TestF4"},
		{"test/scenario", "^TestScenarios$/^resend-removed$/^Pebble$/^WebSocketProto$"},
	},
	"reuse-seq": {
		{"internal/conv", "^TestSeqsAreGivenOnceAndWithoutHoles$"},
		{"test/scenario", "^TestScenarios$/^group$/^Pebble$/^TCPProto$"},
		{"test/crash", "^TestKill9LosesNothing$"},
	},
	"skip-membership": {
		{"test/scenario", "^TestScenarios$/^group$/^Pebble$/^WebSocketJSON$"},
		{"test/scenario", "^TestScenarios$/^membership$/^Pebble$/^TCPJSON$"},
		{"test/crash", "^TestKill9LosesNothing$"},
	},
	"stay-apart": {
		{"internal/cluster", "^TestNodeThatIsApartGivesItsFeedsUp$"},
	},
	"trust-memory": {
		{"internal/conv", "^TestF19AFormerOwnerReadsNothingFromMemory$"},
		{"internal/conv", "^TestF19AFormerOwnerTellsOtherNodes"},
		{"internal/conv", "^TestF19AFormerOwnerTellsNoNewsFromMemory$"},
		{"internal/conv", "^TestF19AFormerOwnerRefusesNothingFromMemory$"},
		{"internal/cluster", "^TestF19StoppedNodeIsSucceededAndFindsOut$"},
	},
	"no-refan":                {{"internal/conv", "^TestF8ANewOwnerPushesWhatTheOldOneCommitted$"}},
	"pass-fenced":             {{"internal/conv", "^TestF5NothingPassesTheCommitOfAFencedOwner$"}},
	"show-rewrites-early":     {{"internal/conv", "^TestF1RewriteIsNotShownBeforeItIsDurable$"}, {"internal/conv", "^TestF1Reader"}},
	"keep-former-edits":       {{"internal/conv", "^TestF10FormerBodiesAreServedNowhere$"}, {"internal/conv", "^TestF10ConcurrentEdit"}},
	"leave-targets":           {{"internal/conv", "^TestF10EditAndRecallReachADeviceThatWasAway$"}, {"internal/inbox", "^TestF10"}},
	"recipients-of-the-batch": {{"internal/conv", "^TestF17KickInTheMiddleOfABatch$"}},
	"skip-roles":              {{"internal/conv", "^TestRolesDecideWhoMayChangeAGroup$"}, {"internal/conv", "^TestOwnerLeavesAsTheLast$"}, {"internal/conv", "^TestWhoEditsRecallsAndPins$"}},
	"ack-before-flush":        {{"internal/conv", "^TestF13MoveIsToldWhenItIsDurable$"}},
	"heads-before-focus":      {{"internal/session", "^TestF23NothingFallsBetweenTheOldFocusAndTheNew$"}},
	"look-once":               {{"internal/session", "^TestF11LoginBetween"}},
	"sync-without-cursors":    {{"internal/inbox", "^TestF12SyncNames"}},
	"forget-dedupe": {
		{"internal/conv", "^TestF3RepeatIsFoundAfterARestart$"},
		{"internal/conv", "^TestF26"},
		{"internal/inbox", "^TestF26"},
		{"test/scenario", "^TestScenarios$/^resend$/^Pebble$/^WebSocketProto$"},
		{"test/crash", "^TestKill9LosesNothing$"},
	},

	// Of a cluster.
	"ask-without-mark":      {{"internal/conv", "^TestF2A"}},
	"serve-ahead":           {{"internal/bus/stream", "^TestF2A"}, {"internal/fanout", "^TestF2LoginAgainstCommitAcrossNodes$"}, {"internal/conv", "^TestF2A"}},
	"hide-blindness":        {{"internal/fanout", "^TestF2BlindOwner"}},
	"append-unfenced":       {{"internal/store/pgstore", "^TestF5Zombie"}, {"internal/store/pgstore", "^TestF5SameEpoch"}},
	"fence-by-snapshot":     {{"internal/store/pgstore", "^TestF5Takeover"}},
	"cling-to-epochs":       {{"internal/cluster", "^TestF5"}},
	"refan-to-all":          {{"internal/conv", "^TestF8ANewOwnerPushesNobody"}},
	"refuse-unknown":        {{"internal/conv", "^TestF6"}},
	"settle-by-reading":     {{"internal/store/pgstore", "^TestF6Outcome"}, {"internal/store/pgstore", "^TestF6Takeover"}},
	"believe-fatal":         {{"internal/store/pgstore", "^TestF6OnlyAnError"}},
	"ignore-warnings":       {{"internal/store/pgstore", "^TestF6Warning"}},
	"delete-above-floor":    {{"internal/store/pgstore", "^TestF7Floor"}},
	"beat-without-number":   {{"internal/bus/stream", "^TestF9aTheLastFrame"}, {"internal/fanout", "^TestF9TheLastDelivery"}},
	"drop-overflow":         {{"internal/bus/stream", "^TestF9bOverflow"}, {"internal/fanout", "^TestF9Overflow"}},
	"forget-incarnation":    {{"internal/bus/stream", "^TestF9cAFormerProcess"}, {"internal/bus/stream", "^TestF9cAProcessIsKilled$"}},
	"assume-heard":          {{"internal/bus/stream", "^TestF9d"}},
	"apply-ahead":           {{"internal/bus/stream", "^TestF9e"}},
	"apply-twice":           {{"internal/bus/stream", "^TestF9Duplicates"}},
	"write-unchecked":       {{"internal/user", "^TestF11LoginsOnTwoNodes"}},
	"tell-nobody":           {{"internal/session", "^TestF9LostWord"}, {"internal/session", "^TestF11LoginBetween"}},
	"ask-again-behind":      {{"internal/conv", "^TestF14NothingPassesWhat"}},
	"ask-ahead":             {{"internal/conv", "^TestF14NothingIsAsked"}},
	"pass-lane":             {{"internal/conv", "^TestF14NothingPassesTheLane"}},
	"answer-first":          {{"internal/fanout", "^TestF14"}},
	"hand-over-unsealed":    {{"internal/cluster", "^TestF14Drain"}},
	"open-on-stale-release": {{"internal/cluster", "^TestF14Stale"}},
	"keep-recipients":       {{"internal/fanout", "^TestF17Recipients"}},
	"push-without-trust": {
		{"internal/fanout", "^TestF17Nothing"}, {"internal/fanout", "^TestF17Owed"},
		{"internal/session", "^TestF17GatewayWithout"}, {"internal/session", "^TestF17Process"},
	},
	"trust-silence":         {{"internal/session", "^TestF17GatewayCut"}},
	"count-old-claims":      {{"internal/cluster", "^TestF19Claims"}},
	"expire-through-outage": {{"internal/cluster", "^TestF19Outage"}},
	"open-sealed":           {{"internal/cluster", "^TestF27"}},
	"drop-from-moving":      {{"internal/store/pgstore", "^TestF27Nothing"}},
	"leave-tail":            {{"internal/store/pgstore", "^TestF27PartitionMoves"}},
	"open-newer":            {{"internal/store/pgstore", "^TestF28Neighbouring"}},
	"raise-early":           {{"internal/app", "^TestF28"}},
}

func TestEveryBrokenRuleIsNoticed(t *testing.T) {
	for rule, list := range guards {
		for _, g := range list {
			t.Run(rule+"/"+filepath.Base(g.pkg), func(t *testing.T) {
				t.Parallel() // they wait more than they work
				out, failed := g.try(t, rule)
				if !failed {
					t.Errorf("%s -run %s passed with %s switched off", g.pkg, g.run, rule)
				} else if !bytes.Contains(out, []byte("--- FAIL: ")) {
					t.Errorf("%s -run %s ended without a test that failed:\n%s", g.pkg, g.run, out)
				}
			})
		}
	}
}

// Without this one, a suite that fails anyway would prove everything.
func TestSuitesPassWithNothingBroken(t *testing.T) {
	var seen []guard
	for _, list := range guards {
		for _, g := range list {
			if slices.Contains(seen, g) {
				continue
			}
			seen = append(seen, g)
			t.Run(filepath.Base(g.pkg)+"/"+strings.Trim(g.run, "^$"), func(t *testing.T) {
				t.Parallel()
				out, failed := g.try(t, "")
				if failed || !bytes.Contains(out, []byte("--- PASS: ")) {
					t.Errorf("%s -run %s does not pass:\n%s", g.pkg, g.run, out)
				}
			})
		}
	}
}

func TestEverySwitchHasItsGuards(t *testing.T) {
	found := map[string]bool{}
	on := regexp.MustCompile(`sabotage\.On\("([^"]+)"\)`)
	err := filepath.WalkDir(filepath.Join(root(t), "internal"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range on.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for rule := range found {
		if len(guards[rule]) == 0 {
			t.Errorf("nobody guards %s", rule)
		}
	}
	for rule := range guards {
		if !found[rule] {
			t.Errorf("there is no switch %s", rule)
		}
	}
}

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// binaries are the test binaries, built once for each package.
var binaries struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "petrel-sabotage-")
	if err != nil {
		panic(err)
	}
	binaries.dir, binaries.paths = dir, map[string]string{}
	code := m.Run()
	_ = os.RemoveAll(dir) // nothing depends on it
	os.Exit(code)
}

// try runs a suite with a rule switched off ("": none) in the package's folder.
func (g guard) try(t *testing.T, rule string) (out []byte, failed bool) {
	t.Helper()
	cmd := exec.Command(g.binary(t), "-test.v", "-test.timeout", (4 * time.Minute).String(), "-test.run", g.run)
	cmd.Dir = filepath.Join(root(t), filepath.FromSlash(g.pkg))
	cmd.Env = append(os.Environ(), "PETREL_SABOTAGE="+rule, "PETREL_KILLS=10")
	out, err := cmd.CombinedOutput()
	return out, err != nil
}

func (g guard) binary(t *testing.T) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	path := binaries.paths[g.pkg]
	if path == "" {
		path = filepath.Join(binaries.dir, filepath.Base(g.pkg)+".test")
		cmd := exec.Command("go", "test", "-c", "-tags", "sabotage", "-o", path, module+"/"+g.pkg)
		cmd.Dir = root(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s: %v\n%s", g.pkg, err, out)
		}
		binaries.paths[g.pkg] = path
	}
	return path
}
