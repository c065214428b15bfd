package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	defaultUsers  = 20_000
	defaultGroups = 4_000

	fillAtOnce = 1000    // users, groups or records
	step       = 7919    // a prime: the pages that are read are everywhere
	titleSigns = 7       // digits in a title
	titlePage  = "00000" // of these, so many say which 100 groups
)

// town is a server with many users and groups of three of them, and with a record in the audit
// log for each group.
type town struct {
	users, groups int
	srv           *imtest.Server
	convs         []im.ConvID // by the number of the group
}

func userName(i int) string   { return fmt.Sprintf("user%07d", i) }
func groupTitle(i int) string { return fmt.Sprintf("Group %0*d", titleSigns, i) }

// number is what the environment says, or else n.
func number(b *testing.B, env string, n int) int {
	v := os.Getenv(env)
	if v == "" {
		return n
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		b.Fatalf("%s=%s: %v", env, v, err)
	}
	return n
}

// BenchmarkPages measures what the server needs for a page of each table of the console, asked
// for as the console does, and each time for another page. cpu-ms/page is of the server's
// process, with what it does by itself meanwhile; max-ms is the slowest page.
// PETREL_CONSOLE_USERS (20,000) and PETREL_CONSOLE_GROUPS (4,000) say how many there are. The
// server has just started and come to rest: the pages are read from the store.
func BenchmarkPages(b *testing.B) {
	w := &town{users: number(b, "PETREL_CONSOLE_USERS", defaultUsers), groups: number(b, "PETREL_CONSOLE_GROUPS", defaultGroups)}
	w.srv = imtest.Start(b, imtest.Options{Process: true, Config: map[string]string{"log.level": "error"}})
	begun := time.Now()
	w.srv.RestartOn(func(dir string) { w.fill(b, dir) })
	w.awaitTitles(b)
	b.Logf("%d users and %d groups after %s", w.users, w.groups, time.Since(begun).Round(time.Second))
	w.srv.Restart()
	w.awaitRest(b)

	user := func(turn int) string { return userName(turn * step % (w.users - 1000)) }
	group := func(turn int) string { return w.convs[turn*step%w.groups].String() }
	names, titles, records := &petrelv1.ListUsersRequest{ByName: true, Limit: 50}, &petrelv1.ListConversationsRequest{Limit: 50, Descending: true}, &petrelv1.ListAuditRequest{Limit: 100, Descending: true}
	w.page(b, "users", func(turn int) int {
		return len(askJSON(b, w, "ListUsers", &petrelv1.ListUsersRequest{After: user(turn), Limit: 50}, &petrelv1.ListUsersResponse{}).Users)
	})
	w.page(b, "users-backwards", func(turn int) int {
		return len(askJSON(b, w, "ListUsers", &petrelv1.ListUsersRequest{After: user(turn + 1), Limit: 50, Descending: true}, &petrelv1.ListUsersResponse{}).Users)
	})
	w.page(b, "users-by-name", func(int) int {
		r := askJSON(b, w, "ListUsers", names, &petrelv1.ListUsersResponse{})
		names.Token = r.Token
		return len(r.Users)
	})
	w.page(b, "user", func(turn int) int {
		askJSON(b, w, "GetUser", &petrelv1.AdminGetUserRequest{User: user(turn)}, &petrelv1.UserInfo{})
		return 1
	})
	w.page(b, "user-why-not-connected", func(turn int) int {
		askJSON(b, w, "TraceUser", &petrelv1.TraceUserRequest{User: user(turn)}, &petrelv1.TraceUserResponse{})
		return 1
	})
	w.page(b, "user-conversations", func(turn int) int {
		askJSON(b, w, "ListUserConversations", &petrelv1.ListUserConversationsRequest{User: user(turn)}, &petrelv1.ListUserConversationsResponse{})
		return 1
	})
	w.page(b, "conversations", func(turn int) int {
		prefix := groupTitle(turn * step % w.groups / 100 * 100)
		q := &petrelv1.ListConversationsRequest{TitlePrefix: prefix[:len(prefix)-titleSigns+len(titlePage)], Limit: 50}
		return len(askJSON(b, w, "ListConversations", q, &petrelv1.ListConversationsResponse{}).Conversations)
	})
	w.page(b, "conversations-backwards", func(int) int {
		r := askJSON(b, w, "ListConversations", titles, &petrelv1.ListConversationsResponse{})
		titles.Token = r.Token
		return len(r.Conversations)
	})
	w.page(b, "conversation", func(turn int) int {
		askJSON(b, w, "GetConversation", &petrelv1.AdminGetConversationRequest{Conv: group(turn)}, &petrelv1.ConversationInfo{})
		return 1
	})
	w.page(b, "members", func(turn int) int {
		return len(askJSON(b, w, "ListMembers", &petrelv1.AdminListMembersRequest{Conv: group(turn + 1000), Limit: 50}, &petrelv1.ListMembersResponse{}).Members)
	})
	w.page(b, "trace", func(turn int) int {
		return len(askJSON(b, w, "TraceMessage", &petrelv1.TraceMessageRequest{Conv: group(turn + 2000), Seq: 1, Limit: 50}, &petrelv1.TraceMessageResponse{}).Recipients)
	})
	w.page(b, "audit", func(int) int {
		r := askJSON(b, w, "ListAudit", records, &petrelv1.ListAuditResponse{})
		records.Token = r.Token
		return len(r.Records)
	})
	w.page(b, "audit-nothing-fits", func(int) int {
		askJSON(b, w, "ListAudit", &petrelv1.ListAuditRequest{Limit: 100, Descending: true, About: "nobody"}, &petrelv1.ListAuditResponse{})
		return 1
	})
	w.page(b, "overview-first", func(int) int {
		return len(askJSON(b, w, "GetOverview", &petrelv1.GetOverviewRequest{StepS: 10}, &petrelv1.Overview{}).Nodes)
	})
	w.page(b, "refusals", func(int) int {
		askJSON(b, w, "ListRefusals", &petrelv1.ListRefusalsRequest{Limit: 200}, &petrelv1.ListRefusalsResponse{})
		return 1
	})
	w.page(b, "log", func(int) int {
		askJSON(b, w, "ReadLog", &petrelv1.ReadLogRequest{}, &petrelv1.ReadLogResponse{})
		return 1
	})
	w.page(b, "limits", func(int) int {
		return len(askJSON(b, w, "GetLimits", &petrelv1.GetLimitsRequest{}, &petrelv1.ClusterLimits{}).Nodes)
	})
	w.page(b, "cluster", func(int) int {
		return len(askJSON(b, w, "GetCluster", &petrelv1.GetClusterRequest{}, &petrelv1.ClusterState{}).Nodes)
	})
	w.page(b, "tenants", func(int) int {
		return len(askJSON(b, w, "ListTenants", &petrelv1.ListTenantsRequest{}, &petrelv1.ListTenantsResponse{}).Tenants)
	})
	w.page(b, "keys", func(int) int {
		return len(askJSON(b, w, "ListKeys", &petrelv1.ListKeysRequest{}, &petrelv1.ListKeysResponse{}).Keys)
	})
}

// page measures a page: ask reads it, and returns how many rows it has, which must be some.
func (w *town) page(b *testing.B, name string, ask func(turn int) int) {
	b.Run(name, func(b *testing.B) {
		var turn int
		var slowest time.Duration
		before := w.cpu(b)
		for b.Loop() {
			begun := time.Now()
			if ask(turn) == 0 {
				b.Fatalf("page %d is empty", turn)
			}
			slowest = max(slowest, time.Since(begun))
			turn++
		}
		b.ReportMetric(1000*(w.cpu(b)-before)/float64(turn), "cpu-ms/page")
		b.ReportMetric(float64(slowest.Microseconds())/1000, "max-ms")
	})
}

// cpu is what the server's process has used, in seconds.
func (w *town) cpu(b *testing.B) float64 {
	r, err := w.srv.Admin.GetStats(b.Context(), connect.NewRequest(&petrelv1.GetStatsRequest{}))
	if err != nil {
		b.Fatal(err)
	}
	return r.Msg.CpuS
}

// askJSON calls a method of AdminService as the console does.
func askJSON[A proto.Message](b *testing.B, w *town, method string, q proto.Message, answer A) A {
	b.Helper()
	body, err := protojson.Marshal(q)
	if err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, w.srv.AdminURL()+"/petrel.v1.AdminService/"+method, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.srv.Key())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err == nil && res.StatusCode == http.StatusOK {
		err = protojson.Unmarshal(text, answer)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s, %v: %.300s", method, res.Status, err, text)
	}
	return answer
}

// awaitTitles waits until the last group is found by its title, and so all are.
func (w *town) awaitTitles(b *testing.B) {
	b.Helper()
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	q := &petrelv1.ListConversationsRequest{TitlePrefix: groupTitle(w.groups - 1)}
	for end := time.Now().Add(10 * time.Minute); len(askJSON(b, w, "ListConversations", q, &petrelv1.ListConversationsResponse{}).Conversations) == 0; <-poll.C {
		if time.Now().After(end) {
			b.Fatal("the groups are not found by their titles")
		}
	}
}

// awaitRest waits until the server has nothing to do by itself, such as compactions after a start.
func (w *town) awaitRest(b *testing.B) {
	b.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 120 {
		before := w.cpu(b)
		<-tick.C
		if w.cpu(b)-before < 0.05 {
			return
		}
	}
	b.Log("the server has not come to rest")
}

// fill writes the users, the groups and the audit log into the store of a server that does not
// run.
func (w *town) fill(b *testing.B, dir string) {
	b.Helper()
	st, err := pebblestore.Open(pebblestore.Options{Dir: dir, AcceptCopies: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range []func(context.Context, store.Store) error{w.fillUsers, w.fillGroups, w.fillAudit} {
		if err := f(b.Context(), st); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

func (w *town) fillUsers(ctx context.Context, st store.Store) error {
	for from := 0; from < w.users; from += fillAtOnce {
		var puts []store.RecordPut
		for i := from; i < min(from+fillAtOnce, w.users); i++ {
			name := fmt.Sprintf("Person %d", i)
			record, err := (&storepb.User{CreatedMs: uint64(1_795_262_400_000 + i), DisplayName: name}).MarshalVT()
			if err != nil {
				return err
			}
			puts = append(puts, store.RecordPut{Table: store.Users, Tenant: im.DefaultTenant, Key: []byte(userName(i)), Value: record},
				store.RecordPut{Table: store.DisplayNames, Tenant: im.DefaultTenant, Key: []byte(user.Searched(name) + "\x00" + userName(i)), Value: []byte{1}})
		}
		if err := st.Update(ctx, puts); err != nil {
			return err
		}
	}
	return nil
}

func (w *town) fillGroups(ctx context.Context, st store.Store) error {
	convs, err := conv.New(ctx, conv.Options{}, st, fanout.NewTable())
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- convs.Run(running) }()
	answers := make(chan conv.Result, fillAtOnce)
	for from := 0; from < w.groups && err == nil; from += fillAtOnce {
		var sends []*conv.Send
		for i := from; i < min(from+fillAtOnce, w.groups); i++ {
			w.convs = append(w.convs, im.NewGroupID())
			members := &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: userName(i % w.users), Role: petrelv1.Role_ROLE_OWNER}, {User: userName((i + 1) % w.users)}, {User: userName((i + 2) % w.users)}}}
			s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: w.convs[i]}, Keyed: true, Done: func(r conv.Result) { answers <- r }}
			s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: groupTitle(i)}
			s.Entry.ClientMsgId, s.Entry.Body = "create", &petrelv1.Message_Members{Members: members}
			sends = append(sends, s)
		}
		var k fanout.WakeUps
		convs.Submit(append([]*conv.Send(nil), sends...), &k)
		k.Flush()
		for range sends {
			if r := <-answers; r.Err != nil {
				err = r.Err
			}
		}
	}
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	return err
}

func (w *town) fillAudit(ctx context.Context, st store.Store) error {
	l := audit.New(audit.Options{}, st, "filler")
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(running) }()
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(fillAtOnce / 4) // it has a queue of its own
	for i := range w.groups {
		g.Go(func() error {
			return l.Append(within, &audit.Record{Event: "petrel.v1.AdminService/CreateGroup", KeyName: "filler", Details: []audit.Detail{{Name: "members", Value: userName(i % w.users)}, {Name: "conv", Value: w.convs[i].String()}}})
		})
	}
	err := g.Wait()
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	return err
}
