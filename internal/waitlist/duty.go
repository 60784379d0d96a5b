package waitlist

import (
	"context"
	"time"
)

// onDutyScript changes nothing.
//
// Output: now; the id of the process on duty or ""; the end of its duty or 0.
const onDutyScript = `
local id, ends = unpack(redis.call("HMGET", KEYS[3], "id", "until"))
if not id or tonumber(ends) <= now then
	return {whole(now), "", "0"}
end
return {whole(now), id, ends}
`

// OnDuty returns the ID of the process on duty as dispatcher, or "", and the end of its duty without another look.
func (w *Waitlist) OnDuty(ctx context.Context) (id string, until, now time.Time, err error) {
	r, err := w.run(ctx, "read the dispatcher", w.scripts.onDuty)
	if err != nil {
		return "", time.Time{}, time.Time{}, err
	}
	now, id, until = r.moment(), r.text(), r.moment()
	return id, until, now, r.err
}
