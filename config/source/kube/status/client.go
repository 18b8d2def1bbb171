package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sallyport/sallyport/config/source/kube"
)

// requestTimeout bounds one request.
const requestTimeout = 15 * time.Second

// client reads and patches objects as JSON, whatever their kind.
type client struct {
	rest rest.Interface
	http *http.Client
}

func newClient(config *rest.Config, perSecond float64) (*client, error) {
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/apis", &schema.GroupVersion{}
	c.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.QPS, c.Burst, c.Timeout = float32(perSecond), int(perSecond)+1, requestTimeout
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	r, err := rest.UnversionedRESTClientForConfigAndClient(c, h)
	return &client{rest: r, http: h}, err
}

// stale says that the server holds another generation of an object than the one that was judged.
type stale struct{ judged, held int64 }

func (s stale) Error() string {
	return fmt.Sprintf("generation %d was judged, the server holds %d", s.judged, s.held)
}

func isStale(err error) bool {
	var s stale
	return errors.As(err, &s)
}

// write makes what the status of an object holds of ours equal to want. It fails with a conflict when somebody else
// writes the object at the same time.
func (c *client) write(ctx context.Context, j kube.Assessment, want wish) error {
	path := pathOf(j)
	data, err := c.rest.Get().MaxRetries(0).AbsPath(path...).DoRaw(ctx)
	if err != nil {
		return err
	}
	var held struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
			Generation      int64  `json:"generation"`
		} `json:"metadata"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &held); err != nil {
		return fmt.Errorf("reading %s: %w", j.Key, err)
	}
	if held.Metadata.Generation != j.Generation {
		return stale{j.Generation, held.Metadata.Generation}
	}
	status := want.Over(held.Status, time.Now())
	if status == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": held.Metadata.ResourceVersion},
		"status":   status,
	})
	if err != nil {
		return err
	}
	_, err = c.rest.Patch(types.MergePatchType).MaxRetries(0).AbsPath(append(path, "status")...).Param("fieldManager", "sallyport").Body(patch).DoRaw(ctx)
	return err
}

// pathOf is where an object is.
func pathOf(j kube.Assessment) []string {
	path := []string{"/apis", j.Resource.Group, j.Resource.Version}
	if j.Key.Namespace != "" {
		path = append(path, "namespaces", j.Key.Namespace)
	}
	return append(path, j.Resource.Resource, j.Key.Name)
}
