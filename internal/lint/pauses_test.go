package lint

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// pause is a place in TypeScript that waits for a time. A timer without a time is a turn of the
// event loop.
var pause = regexp.MustCompile(`\bset(?:Timeout|Interval)\(|\bwaitForTimeout\(|['"](?:node:)?timers/promises['"]`)

// turn is a timer without a time.
var turn = regexp.MustCompile(`\bsetTimeout\(\w+\)`)

// pauseReasons are the files of tests in TypeScript that wait for a time, with the number of the
// places and the reason.
var pauseReasons = map[string]struct {
	places int
	reason string
}{
	"sdk/ts/test/until.ts":       {2, "the interval of a wait for a condition, and its limit"},
	"web/test/browser.ts":        {1, "the interval of a wait for a condition"},
	"web/test/cluster.ts":        {1, "the interval of a wait for a condition, and the pace of people who write"},
	"web/test/stopwatch.ts":      {1, "the limit of a wait"},
	"sdk/ts/test/links.ts":       {2, "a link with faults holds frames back for a time"},
	"sdk/ts/test/passenger.ts":   {1, "the pace of a client that writes"},
	"sdk/ts/test/walker.ts":      {1, "the steps of a random walk, and the intervals of its waits for conditions"},
	"sdk/ts/src/stores.test.ts":  {1, "keeps a process alive until it is killed"},
	"web/test/scroll.ts":         {1, "the pace of what comes in while the list is scrolled"},
	"web/test/timeline.test.ts":  {2, "the pace of what comes in while the list is scrolled; and what is under the info is not read: the observer of what is in view reports late, and says nothing of what is not"},
	"web/test/embed.test.ts":     {3, "what is not in view is not read: the observer of what is in view reports late, and says nothing of what is not"},
	"web/test/first_app.test.ts": {1, "what nobody looks at is not read: nothing tells that no receipt comes"},
	"web/test/stage.ts":          {1, "pictures, which no test judges"},
	"web/test/views.ts":          {4, "pictures, which no test judges"},
	"web/test/shots.ts":          {1, "pictures, which no test judges"},
	"web/test/consoleShots.ts":   {1, "pictures, which no test judges"},
}

// pauses finds the tests in TypeScript that wait for a time instead of a condition.
func pauses(files []file) []string {
	var found []string
	for _, f := range files {
		if !isTypeScriptTest(f.path) {
			continue
		}
		excused := pauseReasons[f.path]
		places := 0
		for i, line := range strings.Split(f.text, "\n") {
			n := len(pause.FindAllString(line, -1)) - len(turn.FindAllString(line, -1))
			if places += n; n > 0 && excused.places == 0 {
				found = append(found, fmt.Sprintf("%s:%d: waits for a time: wait for the condition with eventually of sdk/ts/test/until.ts or until of web/test/browser.ts, or use fake timers", f.path, i+1))
			}
		}
		if excused.places > 0 && places != excused.places {
			found = append(found, fmt.Sprintf("%s: waits for a time in %d places, pauseReasons has %d", f.path, places, excused.places))
		}
	}
	return found
}

// isTypeScriptTest tells whether a file is a test of the SDK or the web chat in TypeScript, or a part of one.
func isTypeScriptTest(name string) bool {
	ext := path.Ext(name)
	if ext != ".ts" && ext != ".tsx" || !strings.HasPrefix(name, "sdk/ts/") && !strings.HasPrefix(name, "web/") {
		return false
	}
	return strings.HasSuffix(strings.TrimSuffix(name, ext), ".test") || strings.Contains(name, "/test/")
}
