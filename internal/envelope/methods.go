package envelope

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// method is one that arguments may have beside TaskType.
type method struct {
	of         reflect.Type // the interface with it
	name, want string
	// mistaken are interfaces with what is easily written instead.
	mistaken []reflect.Type
}

func methods() []method {
	return []method{
		{reflect.TypeFor[tasks.Charger](), "Charges", "Charges() []reservations.Charge", []reflect.Type{
			reflect.TypeFor[interface{ Charges() reservations.Charge }](),
			reflect.TypeFor[interface{ Charges() *reservations.Charge }](),
			reflect.TypeFor[interface{ Charges() []*reservations.Charge }](),
			reflect.TypeFor[interface {
				Charges() ([]reservations.Charge, error)
			}](),
			reflect.TypeFor[interface {
				Charges(ctx context.Context) []reservations.Charge
			}](),
			reflect.TypeFor[interface{ Charge() []reservations.Charge }](),
			reflect.TypeFor[interface{ Charge() reservations.Charge }](),
		}},
		{reflect.TypeFor[tasks.Optioner](), "TaskOptions", "TaskOptions() tasks.Options", []reflect.Type{
			reflect.TypeFor[interface{ TaskOptions() *tasks.Options }](),
			reflect.TypeFor[interface{ Options() tasks.Options }](),
		}},
	}
}

// CheckType refuses arguments that seem to be a Charger or an Optioner and are none, because their tasks would be
// unlimited. The methods may be methods of the pointer alone, have another signature or name, or be hidden: two
// embedded types have them, or a field has their name. The error matches tasks.ErrBadPayload.
func CheckType(args tasks.Args) error {
	t := reflect.TypeOf(args)
	var faults []error
	for _, m := range methods() {
		if problem := m.missed(t); problem != "" {
			faults = append(faults, fmt.Errorf("%w: %v %s", tasks.ErrBadPayload, t, problem))
		}
	}
	return errors.Join(faults...)
}

// missed says why a type that seems to have the method does not; empty if it has it, or does not seem to.
func (m method) missed(t reflect.Type) string {
	if t.Implements(m.of) {
		return ""
	}
	pointer := t
	if t.Kind() != reflect.Pointer {
		pointer = reflect.PointerTo(t)
	}
	if pointer.Implements(m.of) {
		return fmt.Sprintf("has %s at its pointer alone: write func (a %s) %s, or use *%s everywhere", m.name, t.Name(),
			m.want, t.Name())
	}
	for _, other := range m.mistaken {
		if pointer.Implements(other) {
			return fmt.Sprintf("has the method of %v, which nothing calls: it must be %s", other, m.want)
		}
	}
	if inner := embedded(t, m.of); inner != nil {
		return fmt.Sprintf("embeds %v, whose %s another embedded type or field hides: give it a method %s of its own",
			inner, m.name, m.want)
	}
	return ""
}

// embedded returns a type that t embeds and that implements an interface, or whose pointer does. Nil if there is none.
func embedded(t, of reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		if !f.Anonymous {
			continue
		}
		if f.Type.Implements(of) || f.Type.Kind() != reflect.Interface && reflect.PointerTo(f.Type).Implements(of) {
			return f.Type
		}
		if inner := embedded(f.Type, of); inner != nil {
			return inner
		}
	}
	return nil
}
