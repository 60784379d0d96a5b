package envelope

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// method is one that arguments may have beside TaskType.
type method struct {
	of         reflect.Type // the interface with it
	name, want string
	value      reflect.Type // what it returns: other methods and fields with that are mistakes
	// others returns the methods of a type with this name or a similar one. Constant names let the linker leave out the
	// unused methods of a program: with reflect.Type.Methods a small one has 72 % more bytes.
	others func(t reflect.Type) []reflect.Method
}

func methods() []method {
	return []method{
		{
			reflect.TypeFor[tasks.Charger](), "Charges", "Charges() []reservations.Charge",
			reflect.TypeFor[reservations.Charge](), func(t reflect.Type) (all []reflect.Method) {
				all = add(all)(t.MethodByName("Charges"))
				all = add(all)(t.MethodByName("Charge"))
				all = add(all)(t.MethodByName("GetCharges"))
				all = add(all)(t.MethodByName("TaskCharges"))
				return add(all)(t.MethodByName("Cost"))
			},
		},
		{
			reflect.TypeFor[tasks.Optioner](), "TaskOptions", "TaskOptions() tasks.Options",
			reflect.TypeFor[tasks.Options](), func(t reflect.Type) (all []reflect.Method) {
				all = add(all)(t.MethodByName("TaskOptions"))
				all = add(all)(t.MethodByName("TaskOption"))
				return add(all)(t.MethodByName("Options"))
			},
		},
	}
}

// add appends a method that was found.
func add(all []reflect.Method) func(reflect.Method, bool) []reflect.Method {
	return func(m reflect.Method, found bool) []reflect.Method {
		if found {
			all = append(all, m)
		}
		return all
	}
}

// CheckType refuses arguments that seem to be a Charger or an Optioner and are none, because their tasks would be
// unlimited. The methods may be methods of the pointer alone, have another signature or name, or be hidden: two
// embedded types have them, or a field has their name. Charges may be in a field, which nothing reads. The error
// matches tasks.ErrBadPayload.
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
	for _, other := range m.others(pointer) {
		if other.Name == m.name || m.returned(other.Type) {
			return fmt.Sprintf("has the method %s, which nothing calls: it must be %s", signature(other), m.want)
		}
	}
	if inner := embedded(t, m.of); inner != nil {
		return fmt.Sprintf("embeds %v, whose %s another embedded type or field hides: give it a method %s of its own",
			inner, m.name, m.want)
	}
	if field := m.field(t); field != "" {
		return fmt.Sprintf("has the field %s, which nothing reads: give it a method %s", field, m.want)
	}
	return ""
}

// returned says whether a function returns the value, or several.
func (m method) returned(function reflect.Type) bool {
	for out := range function.Outs() {
		if m.is(out) {
			return true
		}
	}
	return false
}

// is says whether a type is the value, a pointer to it, or a list of it.
func (m method) is(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	return t == m.value
}

// field is a field that has the value, or tasks.Terms that are not embedded. Empty if there is none.
func (m method) field(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	for f := range t.Fields() {
		if m.is(f.Type) || f.Type == reflect.TypeFor[tasks.Terms]() {
			return fmt.Sprintf("%s %v", f.Name, f.Type)
		}
	}
	return ""
}

// signature is a method without its receiver, as it is written.
func signature(m reflect.Method) string {
	receiver := "(" + m.Type.In(0).String()
	text := strings.TrimPrefix(m.Type.String(), "func"+receiver)
	return m.Name + "(" + strings.TrimPrefix(text, ", ")
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
