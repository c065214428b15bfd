package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// settleTime is how long the end of the input waits for what is on its way.
const settleTime = 30 * time.Second

// Plain shows the client as lines: entries on o.Out as they come, each once and
// in the order of its conversation, beginning with the last ones of each; every
// line of o.In is a message or an order. It ends behind the input, when the fate
// of every message is known. What fails is told on errOut and makes the error.
func Plain(ctx context.Context, o Options, last uint64, errOut io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &plain{t: newTalk(o.Client), out: o.Out, err: errOut, last: last, seen: map[string]uint64{}, open: o.Conv}
	if o.To != "" {
		p.open = toUser + o.To
	}
	sub := o.Client.Subscribe()
	defer sub.Close()
	ended := make(chan error, 1)
	go func() { ended <- o.Client.Run(ctx) }()
	// Reading a terminal or a pipe cannot be called off: this goroutine ends with
	// the input, or with the process.
	lines := make(chan string) // no capacity: a line is read when the one before is done
	go func() {
		defer close(lines)
		r := bufio.NewScanner(o.In)
		r.Buffer(nil, 1<<20)
		for r.Scan() {
			select {
			case lines <- r.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	err := p.run(ctx, sub, lines, ended)
	stop()
	if err == errEnded {
		return <-ended
	}
	return errors.Join(err, <-ended)
}

// errEnded says that the client has ended by itself.
var errEnded = errors.New("the client has ended")

// plain is the client as lines.
type plain struct {
	t    *talk
	out  io.Writer
	err  io.Writer
	last uint64
	open string
	seen map[string]uint64 // the seq up to which a conversation was shown
	told bool              // the conversations that were there are shown

	sent   []*petrel.Outgoing // taken, fate not told
	failed int
}

func (p *plain) run(ctx context.Context, sub *petrel.Subscription, lines <-chan string, ended chan error) error {
	var input <-chan string // nil until the list of conversations is known
	var deadline <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- err
			return errEnded
		case <-deadline:
			return fmt.Errorf("it is not known whether %s stored; start the same client again, and it sends them", plural(len(p.sent), "message")+" are")
		case <-sub.Ready():
			sub.Take()
			if err := p.news(ctx); err != nil {
				return err
			}
			if p.told && input == nil && deadline == nil {
				input = lines
			}
		case s, ok := <-input:
			if !ok {
				input, lines = nil, nil
				t := time.NewTimer(settleTime)
				defer t.Stop()
				deadline = t.C
				break
			}
			if err := p.line(ctx, s); err != nil {
				p.failed++
				fmt.Fprintf(p.err, "error: %s\n", oneLine(err.Error()))
			}
		}
		p.fates()
		if deadline != nil && len(p.sent) == 0 {
			if err := p.news(ctx); err != nil {
				return err
			}
			if p.failed > 0 {
				return fmt.Errorf("%s failed", plural(p.failed, "line"))
			}
			return nil
		}
	}
}

// news prints what has come.
func (p *plain) news(ctx context.Context) error {
	if !p.told {
		if !p.t.c.Status().Synced {
			return nil
		}
	}
	for _, v := range p.t.c.Conversations() {
		if !v.Known {
			continue
		}
		if _, ok := p.seen[v.ID]; !ok {
			p.seen[v.ID] = 0
			if !p.told {
				p.seen[v.ID] = v.Head - min(v.Head, p.last)
			}
		}
		for p.seen[v.ID] < v.Have {
			ms, err := p.t.c.Since(ctx, v.ID, p.seen[v.ID], 0)
			if err != nil || ctx.Err() != nil {
				return err
			}
			for _, m := range ms {
				p.print(&v, &m)
				p.seen[v.ID] = m.Seq
			}
			if len(ms) == 0 {
				p.seen[v.ID] = v.Have
			}
		}
		if v.Read < p.seen[v.ID] && !v.Left {
			p.t.c.MarkRead(v.ID, p.seen[v.ID])
		}
	}
	p.told = true
	return nil
}

func (p *plain) print(v *petrel.Conversation, m *petrel.Message) {
	c := p.t.conversation(v)
	name := fmt.Sprintf("%q", c.name)
	if c.direct {
		name = "@" + c.name
	}
	said := actor(m.From)
	switch b := m.Body.(type) {
	case *petrelv1.Message_Edit:
		said = fmt.Sprintf("%s edited #%d: %s", said, b.Edit.Target, b.Edit.GetText())
	case *petrelv1.Message_Recall:
		said = fmt.Sprintf("%s recalled #%d", said, b.Recall.Target)
	default:
		e, _ := p.t.entry(m, "")
		if e.quote != "" {
			said += " (↪ " + e.quote + ")"
		}
		if e.origin != "" {
			said += " (" + e.origin + ")"
		}
		if said += ": " + e.text; e.notice {
			said = e.text
		}
	}
	fmt.Fprintf(p.out, "%s  %s #%d  %s\n", when(m.TimeMs).Format("15:04"), name, m.Seq, strings.ReplaceAll(clean(said), "\n", "⏎"))
}

// fates tells of the messages whose fate is known now.
func (p *plain) fates() {
	var left []*petrel.Outgoing
	for _, o := range p.sent {
		switch state, _, _, err := o.State(); state {
		case petrel.Sending:
			left = append(left, o)
		case petrel.Rejected, petrel.Unknowable:
			p.failed++
			fmt.Fprintf(p.err, "error: not sent: %s: %s\n", oneLine(o.Draft().Text), oneLine(fmt.Sprint(err)))
			o.Discard()
		}
	}
	p.sent = left
}

// line does what one line of the input says.
func (p *plain) line(ctx context.Context, s string) error {
	o, isOrder, err := parse(s)
	if err != nil {
		return err
	}
	p.open = p.t.resolve(p.open)
	if !isOrder {
		if strings.TrimSpace(s) == "" {
			return nil
		}
		return p.send(unescape(s))
	}
	switch o.verb {
	case "/help":
		_, err := fmt.Fprintln(p.out, strings.Join(metrics(ansi.WcWidth).columns(helpLines(), 100), "\n"))
		return err
	case "/open":
		id, err := find(p.t.list(), o.text)
		if err == nil {
			p.open = id
		}
		return err
	case "/edit", "/recall":
		if _, last := p.t.lastOwn(p.open); o.seq == 0 && last != nil {
			if o.seq, err = last.Wait(ctx); err != nil {
				return err
			}
		}
		return p.taken(p.t.change(p.open, o.seq, o.text))
	case "/reply", "/forward":
		return p.taken(p.t.act(p.open, o))
	case "/members":
		g, err := p.t.ask(ctx, p.open)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(p.out, strings.ReplaceAll(strings.Join(membersLines(g)[1:], "\n"), "\t", "  "))
		return err
	case "/numbers", "/mention", "/more", "/retry", "/drop", "/quit":
		return fmt.Errorf("%s is for the full screen", o.verb)
	}
	if run, ok := p.t.set(p.open, o); ok {
		said, err := run(ctx)
		if err == nil {
			_, err = fmt.Fprintln(p.out, said)
		}
		return err
	}
	said, open, err := p.t.manage(p.open, o)(ctx)
	if err != nil {
		return err
	}
	if open != "" {
		p.open = p.t.resolve(open)
	}
	if said != "" {
		fmt.Fprintln(p.out, said)
	}
	if o.verb == "/dm" && o.text != "" {
		return p.send(o.text)
	}
	return nil
}

func (p *plain) send(text string) error {
	if p.open == "" {
		return fmt.Errorf("to whom? /dm USER or /open NAME first")
	}
	return p.taken(p.t.send(p.open, text))
}

func (p *plain) taken(o *petrel.Outgoing, err error) error {
	if err == nil {
		p.sent = append(p.sent, o)
	}
	return err
}
