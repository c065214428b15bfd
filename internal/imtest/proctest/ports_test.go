package proctest

import "testing"

// A port belongs to one test, though nothing listens there yet: of all that there are, each is
// given once, and again when the test that had it has ended.
func TestAPortIsGivenOnce(t *testing.T) {
	seen := map[string]bool{}
	t.Run("who has them", func(t *testing.T) {
		for range 1000 {
			for _, addr := range FreePorts(t, 2) {
				if seen[addr] {
					t.Fatalf("%s is given twice", addr)
				}
				seen[addr] = true
			}
		}
	})
	again := false
	for range 200 {
		again = again || seen[FreePorts(t, 1)[0]]
	}
	if !again {
		t.Error("200 ports, and none of the 2,000 of a test that has ended")
	}
}
