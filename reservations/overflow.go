package reservations

import "time"

// overdue is how long after its time a reserved task must still find nothing for the line to be ahead. Workers wake tasks 75 ms early: those that are told to come back then
// are short by 175 ms or more.
const overdue = Hold / 2

// What a full bucket loses. Those who were given a time count on all that comes back from then on. While nobody comes (the fleet is down, or was not up yet when
// tasks were reserved) a full bucket has no room for it, and the line is ahead of use by what was lost: all who wait would come too early, and be told again.
// The first who comes at its time and finds nothing for longer than Hold sets the line back for all.

// overflow is what the line counts on and will not find, when from is the moment of the ledgers. A limit with headroom has its own; see accrueUrgent.
func (b *Bucket) overflow(l Limit, from, now time.Time) []float64 {
	owed := make([]float64, len(l.Meters))
	copy(owed, b.Owed)
	if !now.After(from) {
		return owed
	}
	for k, m := range l.Meters {
		late, plan, came := b.Meters[k].Ledgers[LedgerLate], b.Meters[k].Ledgers[LedgerPlan], m.passed(from, now)
		apart := min(m.Cap(), late+came) - min(m.Cap(), plan+came)
		if owed[k] += late - plan - apart; m.windowed() || apart < tolerance { // nobody is on the way
			owed[k] = 0
		}
	}
	return owed
}

// owes adds to what the line counts on and will not find. It may become negative: what will be there though no plan counts on it.
func (b *Bucket) owes(l Limit, amount func(k int, m Meter) float64) {
	if l.HasHeadroom() {
		return
	}
	for k, m := range l.Meters {
		if !m.windowed() {
			b.Owed[k] += amount(k, m)
		}
	}
}

// lose adds what a start took that is lost.
func (b *Bucket) lose(l Limit, n []float64) Outcome {
	for k, m := range l.Meters {
		if !m.windowed() {
			b.Owed[k] += n[k]
		}
	}
	return Outcome{State: StateSettled}
}

// reconcile has the line learn from a reserved task that comes, and finds room in w seconds.
func (b *Bucket) reconcile(l Limit, r Request, w float64) {
	if w > 0 && b.Blocked == 0 {
		b.delay(l, b.ahead(l, r))
	}
	b.owes(l, func(k int, m Meter) float64 { // what a plan above the others learns from this start
		return min(0, b.charged(m, k, LedgerLate, r.Tokens[k], w)-b.Meters[k].Ledgers[LedgerPlan])
	})
}

// ahead is how many seconds the line is ahead, as far as a full bucket is the cause, where a reserved task finds nothing for longer than Hold, and not just because it
// came before its time. It is owed no more.
func (b *Bucket) ahead(l Limit, r Request) float64 {
	early := 0.
	if !r.Due.IsZero() {
		early = max(0, r.Due.Sub(b.At).Seconds()-b.Shift) / b.Speed
	}
	e := 0.
	for k, m := range l.Meters {
		w := m.until(b.At, min(r.Tokens[k], m.Cap())-b.Meters[k].Ledgers[LedgerLate])
		if !m.windowed() && w > Hold.Seconds()+tolerance && w-early > overdue.Seconds() {
			e = max(e, b.Owed[k]/m.RatePerSecond())
		}
	}
	b.owes(l, func(_ int, m Meter) float64 { return -e * m.RatePerSecond() })
	return e
}

// delay sets the ordinary line back by e seconds. Windows keep their own time.
func (b *Bucket) delay(l Limit, e float64) {
	b.Shift -= e * b.Speed
	for k, m := range l.Meters {
		for i := LedgerPlan; i < LedgerCount && !m.windowed(); i++ {
			b.Meters[k].Ledgers[i] -= e * m.RatePerSecond()
		}
	}
}
