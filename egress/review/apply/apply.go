// Package apply hands approved objects to the API server, with the rights of who approves and no others.
//
// In: the changes of an approval, and access to the API server as somebody. Out: they are there, or an error that says which is not, and why, and of which
// nobody knows. A new object is created, under the field manager "sallyport", and never merged into one of that name; one that is there is updated where it
// is still what the approval was made of, and no other program writes it. All of it is tried first without effect, and what admission refuses is not sent
// (docs/adr/0069-lists-with-room-for-all.md).
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/egress/suggest"
)

// Manager is by whom the API server says that fields are.
const Manager = "sallyport"

// resources are the kinds that approvals are made of.
var resources = map[config.Kind]schema.GroupVersionResource{
	config.KindServiceEntry: {Group: "networking.istio.io", Version: "v1", Resource: "serviceentries"},
	config.KindEgressPolicy: {Group: v1alpha1.Group, Version: v1alpha1.Version, Resource: "egresspolicies"},
}

// As is access to the same API server by a token alone: nothing that the other access may do comes with it.
func As(server *rest.Config, token string) *rest.Config {
	own := rest.AnonymousClientConfig(server)
	own.BearerToken = token
	return own
}

// Prepared are objects that the API server would take.
type Prepared []*object

// object is one of them, as it is to be.
type object struct {
	key  config.Key
	to   dynamic.ResourceInterface
	want *unstructured.Unstructured
	new  bool
}

// Prepare asks the API server whether it would take the objects, and changes nothing. The error says which one it would not take.
func Prepare(ctx context.Context, as *rest.Config, changes []suggest.Change) (out Prepared, err error) {
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		return nil, err
	}
	for i := range changes {
		o, err := prepare(ctx, client, &changes[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", changes[i].Key(), err)
		}
		out = append(out, o)
	}
	return out, nil
}

func prepare(ctx context.Context, client dynamic.Interface, c *suggest.Change) (*object, error) {
	resource, known := resources[c.Key().Kind]
	if !known || c.After == nil {
		return nil, errors.New("it is not among what an approval writes: entries and policies")
	}
	if why := suggest.Refuses(c.After); why != "" {
		return nil, errors.New(why)
	}
	manifest, err := suggest.Manifest(c.After)
	if err != nil {
		return nil, err
	}
	o := &object{key: c.Key(), to: client.Resource(resource).Namespace(c.After.Namespace), want: &unstructured.Unstructured{Object: manifest}, new: c.Before == nil}
	live, err := o.to.Get(ctx, o.key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && o.new:
	case apierrors.IsNotFound(err):
		return nil, errChanged
	case err != nil:
		return nil, said(err)
	case o.new:
		return nil, errThere
	default:
		if err := o.onto(live, c.Before); err != nil {
			return nil, err
		}
	}
	return o, said(o.send(ctx, metav1.DryRunAll))
}

var (
	errChanged = errors.New("it is another one by now than the approval was made of: look again")
	errThere   = errors.New("an object of this name is there by now: look again")
)

// onto makes the update of an object that is there, if it is what is known of it.
func (o *object) onto(live *unstructured.Unstructured, known *config.Object) error {
	if err := kept(live); err != nil {
		return err
	}
	says := &unstructured.Unstructured{Object: map[string]any{"spec": live.Object["spec"]}}
	says.SetAPIVersion(live.GetAPIVersion())
	says.SetKind(live.GetKind())
	says.SetNamespace(live.GetNamespace())
	says.SetName(live.GetName())
	says.SetAnnotations(live.GetAnnotations())
	text, err := says.MarshalJSON()
	if err != nil {
		return err
	}
	read := decode.File("live", text)
	if len(read.Objects) != 1 || read.Objects[0].Revision != known.Revision {
		return errChanged
	}
	spec := o.want.Object["spec"]
	o.want = live.DeepCopy() // with its version, which has to be the last one still
	o.want.Object["spec"] = spec
	return nil
}

// send writes the object, or tries to.
func (o *object) send(ctx context.Context, dry ...string) (err error) {
	if o.new {
		_, err = o.to.Create(ctx, o.want, metav1.CreateOptions{FieldManager: Manager, DryRun: dry, FieldValidation: metav1.FieldValidationStrict})
	} else {
		_, err = o.to.Update(ctx, o.want, metav1.UpdateOptions{FieldManager: Manager, DryRun: dry, FieldValidation: metav1.FieldValidationStrict})
	}
	return err
}

// said puts the API server's refusals into words.
func said(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("your own rights do not allow it: %w", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not know you any more: log in again: %w", err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("somebody else wrote it at the same time: look again: %w", err)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", errThere, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

// unknown says of what an API server did not refuse that nobody knows whether it was written.
func unknown(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < 500 {
		return err
	}
	return fmt.Errorf("the API server did not answer as it should, and it may be written all the same: look at it before you go on: %w", err)
}

// Apply writes the objects, in order. The error says which one is not there, or may be there, and which are.
func (p Prepared) Apply(ctx context.Context) error {
	for i, o := range p {
		if err := o.send(ctx); err != nil {
			err = fmt.Errorf("%s: %w", o.key, unknown(said(err)))
			if i > 0 {
				err = fmt.Errorf("%w; applied before it: %s", err, p[:i])
			}
			return err
		}
	}
	return nil
}

// String names the objects.
func (p Prepared) String() string {
	names := make([]string, len(p))
	for i, o := range p {
		names[i] = o.key.String()
	}
	return strings.Join(slices.Compact(names), ", ")
}
