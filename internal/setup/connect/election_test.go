package connect_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"

	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/network"
)

// member is the only reachable server of a replica set, in the bubble of a test. It is a secondary until it is elected,
// and answers all commands with ok.
type member struct {
	wire    *network.Wire
	elected atomic.Bool
}

const address = "127.0.0.1:27017"

func newMember() *member {
	m := &member{}
	m.wire = network.New(network.NewConditions(1, 1, 0, time.Millisecond), func(c net.Conn) { go m.serve(c) })
	return m
}

// DialContext connects to the member.
func (m *member) DialContext(ctx context.Context, kind, address string) (net.Conn, error) {
	return m.wire.Dial(ctx, kind, address)
}

// near sets the options of a client of the member.
func (m *member) near(o *options.ClientOptions) { o.SetDialer(m) }

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
		{Key: "hosts", Value: bson.A{address}},
		{Key: "me", Value: address},
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

// env is an environment with the address of a member.
func env(name string) string {
	if name != "MONGODB_URI" {
		return ""
	}
	return "mongodb://" + address + "/?replicaSet=rs"
}

// noticed elects the member some time after the command prints that it waits.
type noticed struct {
	*member

	text strings.Builder
}

func (n *noticed) Write(b []byte) (int, error) {
	time.AfterFunc(20*time.Second, func() { n.elected.Store(true) })
	return n.text.Write(b)
}

func TestMongoWaitsForAPrimary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &noticed{member: newMember()}
		b, err := connect.Mongo(t.Context(), env, n, n.near)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if want := "MongoDB at " + address +
			" has no primary, as during an election: waiting for one, at most 30s\n"; n.text.String() != want {
			t.Errorf("notice is %q, want %q", n.text.String(), want)
		}
	})
}

func TestMongoDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := newMember()
		if _, err := connect.Mongo(t.Context(), env, nil, silent.near); !errors.Is(err, connect.ErrUnreachable) {
			t.Errorf("without a notice: %v", err)
		}
		began := time.Now()
		var notice strings.Builder
		if _, err := connect.Mongo(t.Context(), env, &notice, silent.near); !errors.Is(err, connect.ErrUnreachable) ||
			notice.String() == "" || time.Since(began) > 40*time.Second {
			t.Errorf("without an end: %v, %q after %v", err, notice.String(), time.Since(began))
		}
		notice.Reset()
		silent.wire.Set(network.Refuse)
		if _, err := connect.Mongo(t.Context(), env, &notice, silent.near); !errors.Is(err, connect.ErrUnreachable) ||
			notice.String() != "" {
			t.Errorf("a server that is away is no election: %v, %q", err, notice.String())
		}
	})
}
