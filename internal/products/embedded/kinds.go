package embedded

// kind says how commands are treated. The zero value is a command on data.
type kind int

const (
	data        kind = iota
	session          // about the connection alone: miniredis answers
	blocking         // may wait: miniredis runs them without this package's help
	transaction      // see transact
	unsupported      // needs state that this package keeps elsewhere, or leaves out
)

// kinds has all commands that are not data.
//
//nolint:gochecknoglobals // a constant table
var kinds = map[string]kind{
	"AUTH": session, "CLIENT": session, "COMMAND": session, "HELLO": session, "PSUBSCRIBE": session,
	"PUNSUBSCRIBE": session, "QUIT": session, "SUBSCRIBE": session, "UNSUBSCRIBE": session,

	"BLMOVE": blocking, "BLPOP": blocking, "BRPOP": blocking, "BRPOPLPUSH": blocking, "WAIT": blocking,
	"XREAD": blocking, "XREADGROUP": blocking,

	"DISCARD": transaction, "EXEC": transaction, "MULTI": transaction,

	"BZMPOP": unsupported, "BZPOPMAX": unsupported, "BZPOPMIN": unsupported, "HEXPIRE": unsupported,
	"HPERSIST": unsupported, "HPTTL": unsupported, "HSETEX": unsupported, "HTTL": unsupported, "MOVE": unsupported,
	"RESTORE": unsupported, "SWAPDB": unsupported, "UNWATCH": unsupported, "WATCH": unsupported,
}
