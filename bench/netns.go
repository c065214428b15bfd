package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// A run with a slow link has two network namespaces, for the clients and for the server, and
// a pair of virtual network cards between them. Both send through a token bucket of
// linkRate, as a card of that speed does.

const (
	netnsServer = "PETREL_BENCH_NETNS" // names the server's namespace to the program in the clients' one
	linkRate    = "100mbit"
	serverIP    = "10.213.77.1"
	clientIP    = "10.213.77.2"
)

// InNetns tells whether this program runs in the clients' namespace.
func InNetns() bool { return os.Getenv(netnsServer) != "" }

// RunInNetns makes the namespaces and starts this program again, with args, in that of the
// clients. It does not return if that works; LeaveNetns takes the namespaces away.
func RunInNetns(ctx context.Context, args []string) error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	client, server := fmt.Sprintf("petrel-c-%d", os.Getpid()), fmt.Sprintf("petrel-s-%d", os.Getpid())
	ip, err := exec.LookPath("ip")
	if err != nil {
		return fmt.Errorf("a link of %s needs the program ip, of the package iproute2: %w", linkRate, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	for _, line := range []string{
		"ip netns add " + client, "ip netns add " + server,
		fmt.Sprintf("ip -n %s link add veth0 type veth peer name veth0 netns %s", client, server),
		fmt.Sprintf("ip -n %s addr add %s/24 dev veth0", client, clientIP), fmt.Sprintf("ip -n %s addr add %s/24 dev veth0", server, serverIP),
		fmt.Sprintf("ip -n %s link set lo up", client), fmt.Sprintf("ip -n %s link set lo up", server),
		fmt.Sprintf("ip -n %s link set veth0 up", client), fmt.Sprintf("ip -n %s link set veth0 up", server),
		fmt.Sprintf("tc -n %s qdisc add dev veth0 root tbf rate %s burst 64kb latency 50ms", client, linkRate),
		fmt.Sprintf("tc -n %s qdisc add dev veth0 root tbf rate %s burst 64kb latency 50ms", server, linkRate),
	} {
		words := strings.Fields(line)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			removeNetns(client, server)
			return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(out)))
		}
	}
	env := append(os.Environ(), netnsServer+"="+server)
	err = syscall.Exec(ip, append([]string{"ip", "netns", "exec", client, self}, args...), env)
	removeNetns(client, server)
	return fmt.Errorf("start %s in a network namespace: %w", self, err)
}

// LeaveNetns takes away the namespaces that RunInNetns has made for this program.
func LeaveNetns() {
	if server := os.Getenv(netnsServer); server != "" {
		removeNetns(server, strings.Replace(server, "petrel-s-", "petrel-c-", 1))
	}
}

// removeNetns leaves what has gone already.
func removeNetns(names ...string) {
	for _, name := range names {
		_ = exec.Command("ip", "netns", "del", name).Run()
	}
}

// host is where own servers listen.
func (p *Params) host() string {
	if p.Netns {
		return serverIP
	}
	return "127.0.0.1"
}

// apart is the command line that runs another one where servers run; empty: here.
func apart() []string {
	if server := os.Getenv(netnsServer); server != "" {
		return []string{"ip", "netns", "exec", server}
	}
	return nil
}
