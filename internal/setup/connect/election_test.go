package connect_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"

	"github.com/headway-go/headway/internal/setup/connect"
)

// member is the only reachable server of a replica set. It is a secondary until it is elected, and answers all
// commands with ok.
type member struct {
	address string
	elected atomic.Bool
	served  sync.WaitGroup
}

func newMember(t *testing.T) *member {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{address: listener.Addr().String()}
	m.served.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			m.served.Go(func() { m.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		m.served.Wait()
	})
	return m
}

// serve answers until the client closes the connection.
func (m *member) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		message := make([]byte, binary.LittleEndian.Uint32(head))
		copy(message, head)
		if _, err := io.ReadFull(c, message[4:]); err != nil {
			return
		}
		if _, err := c.Write(m.answer(message)); err != nil {
			return
		}
	}
}

func (m *member) answer(message []byte) []byte {
	_, request, _, code, _, _ := wiremessage.ReadHeader(message)
	elected := m.elected.Load()
	document, _ := bson.Marshal(bson.D{ // plain values
		{Key: "ok", Value: 1},
		{Key: "isWritablePrimary", Value: elected},
		{Key: "secondary", Value: !elected},
		{Key: "setName", Value: "rs"},
		{Key: "hosts", Value: bson.A{m.address}},
		{Key: "me", Value: m.address},
		{Key: "maxWireVersion", Value: 25},
	})
	var start int32
	var b []byte
	if code == wiremessage.OpQuery { //nolint:staticcheck // the driver's first hello of a connection has this form
		start, b = wiremessage.AppendHeaderStart(nil, 1, request, wiremessage.OpReply)
		b = wiremessage.AppendReplyFlags(b, 0)
		b = wiremessage.AppendReplyCursorID(b, 0)
		b = wiremessage.AppendReplyStartingFrom(b, 0)
		b = wiremessage.AppendReplyNumberReturned(b, 1)
	} else {
		start, b = wiremessage.AppendHeaderStart(nil, 1, request, wiremessage.OpMsg)
		b = wiremessage.AppendMsgFlags(b, 0)
		b = wiremessage.AppendMsgSectionType(b, wiremessage.SingleDocument)
	}
	b = append(b, document...)
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)))
	return b
}

// env returns an environment with a short timeout for finding a primary.
func (m *member) env(name string) string {
	if name != "MONGODB_URI" {
		return ""
	}
	return "mongodb://" + m.address + "/?replicaSet=rs&serverSelectionTimeoutMS=200"
}

// noticed elects the member when the command prints that it waits.
type noticed struct {
	*member
	text strings.Builder
}

func (n *noticed) Write(b []byte) (int, error) {
	n.elected.Store(true)
	return n.text.Write(b)
}

func TestMongoWaitsForAPrimary(t *testing.T) {
	t.Parallel()
	n := &noticed{member: newMember(t)}
	b, err := connect.Mongo(t.Context(), n.env, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if want := "MongoDB at " + n.address +
		" has no primary, as during an election: waiting for one, at most 30s\n"; n.text.String() != want {
		t.Errorf("notice is %q, want %q", n.text.String(), want)
	}
}

func TestMongoDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	silent := newMember(t)
	if _, err := connect.Mongo(t.Context(), silent.env, nil); !errors.Is(err, connect.ErrUnreachable) {
		t.Errorf("without a notice: %v", err)
	}
	away := func(string) string { return "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200" }
	var notice strings.Builder
	if _, err := connect.Mongo(t.Context(), away, &notice); !errors.Is(err, connect.ErrUnreachable) ||
		notice.String() != "" {
		t.Errorf("a server that is away is no election: %v, %q", err, notice.String())
	}
}
