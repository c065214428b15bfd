package chaos

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// network has each node on a host of its own: a network namespace with an
// address, on a bridge that drops the packets it is told to. The clients and
// the databases stay in the namespace of the test, with an address each.
type network struct {
	t     *testing.T
	name  string                  // of the bridge's namespace; the others begin with it
	addrs map[*node]string        // nil: of the databases
	cut   map[direction]time.Time // since when
	slow  map[*node]*slowLink
}

// direction is that of packets from one host to another; nil is the databases'.
type direction struct{ from, to *node }

// theClients stands for the host of the clients.
var theClients = &node{name: "the clients"}

const (
	// A bridge in namespace $1, and a link from here to it, where 10.87.$2.1 is
	// the clients' address and 10.87.$2.2 that of the databases. (On a bridge out
	// here the machine's own firewall may look at what passes.)
	layBridge = `ip link add "$1" type veth peer name test netns "$1"
ip addr add "10.87.$2.1/24" dev "$1"
ip addr add "10.87.$2.2/24" dev "$1"
ip link set "$1" up
ip -n "$1" link add bridge type bridge
ip -n "$1" link set bridge up
ip -n "$1" link set test master bridge up`

	// Host $2 on the bridge of $1, with address $3.
	layHost = `ip netns add "$1-$2"
ip link add "$2" netns "$1" type veth peer name eth0 netns "$1-$2"
ip -n "$1" link set "$2" master bridge up
ip -n "$1-$2" addr add "$3/24" dev eth0
ip -n "$1-$2" link set eth0 up
ip -n "$1-$2" link set lo up`
)

// cuttable gives each node a host. Nobody but root can.
func cuttable(w *world) {
	n := &network{t: w.t, addrs: map[*node]string{}, cut: map[direction]time.Time{}}
	w.net = n
	var net int
	var err error
	for _, net = range rand.Perm(256) { // until one is free, of this run and what an earlier one left
		n.name = fmt.Sprintf("petrel-%d", net)
		if err = sh(`ip netns add "$1"`, n.name); err == nil {
			break
		}
	}
	if err != nil {
		w.t.Fatalf("make a network namespace, as root: %v; Debian's packages are iproute2 and nftables", err)
	}
	w.t.Cleanup(func() { _ = sh(`ip link del "$1" || true; ip netns del "$1"`, n.name) }) // best effort
	w.must(sh(layBridge, n.name, fmt.Sprint(net)))
	w.databases = fmt.Sprintf("10.87.%d.2", net)
	n.addrs[nil], n.addrs[theClients] = w.databases, fmt.Sprintf("10.87.%d.1", net)
	for i, o := range w.nodes {
		addr := fmt.Sprintf("10.87.%d.%d", net, 11+i)
		n.addrs[o], o.netns = addr, n.name+"-"+o.name
		o.http, o.tcp, o.admin, o.bus = addr+":8080", addr+":8081", addr+":8082", addr+":8083"
		w.t.Cleanup(func() { _ = sh(`ip netns del "$1"`, o.netns) }) // best effort
		w.must(sh(layHost, n.name, o.name, addr))
	}
	n.set(false)
}

// set cuts the network or heals it. A cut loses packets, and neither side gets an error. A
// direction that is healed must have lost some; otherwise it was not cut.
func (n *network) set(cut bool, all ...direction) {
	n.t.Helper()
	if !cut && len(n.cut) > 0 {
		lost := n.lost()
		for _, d := range all {
			if since, ok := n.cut[d]; ok && time.Since(since) > time.Second && lost[d] == 0 {
				n.t.Errorf("no packet from %s to %s was lost in %v", n.addrs[d.from], n.addrs[d.to], time.Since(since))
			}
		}
	}
	for _, d := range all {
		if delete(n.cut, d); cut {
			n.cut[d] = time.Now()
		}
	}
	rules := "flush ruleset\ntable bridge cut { chain forward { type filter hook forward priority 0\n"
	for d := range n.cut {
		rules += fmt.Sprintf("ip saddr %s ip daddr %s counter drop\n", n.addrs[d.from], n.addrs[d.to])
	}
	if err := sh(`ip netns exec "$1" nft "$2"`, n.name, rules+"}\n}"); err != nil {
		n.t.Fatal(err)
	}
}

var counter = regexp.MustCompile(`ip saddr (\S+) ip daddr (\S+) counter packets (\d+)`)

// lost is how many packets were lost in each direction since the last change.
func (n *network) lost() map[direction]int {
	out, err := exec.Command("ip", "netns", "exec", n.name, "nft", "list", "ruleset").Output()
	if err != nil {
		n.t.Fatalf("read what was lost: %v", err)
	}
	host := map[string]*node{}
	for o, addr := range n.addrs {
		host[addr] = o
	}
	all := map[direction]int{}
	for _, m := range counter.FindAllStringSubmatch(string(out), -1) {
		all[direction{host[m[1]], host[m[2]]}], _ = strconv.Atoi(m[3]) // digits
	}
	return all
}

// sh runs a script to which args are $1, $2, ...
func sh(script string, args ...string) error {
	if out, err := output(script, args...); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// output runs a script as sh does, and returns what it prints.
func output(script string, args ...string) (string, error) {
	out, err := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...).CombinedOutput()
	return string(out), err
}
