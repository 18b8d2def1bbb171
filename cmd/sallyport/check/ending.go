package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode"
)

// ending is how long before its end a rule of an EgressPolicy is spoken of.
const ending = 7 * 24 * time.Hour

// rulesEnd names the rules that end soon. What has ended is the linter's to say.
func (s *survey) rulesEnd() {
	for i := range s.Egress {
		o := &s.Egress[i]
		p, ok := o.Spec.(*v1alpha1.EgressPolicy)
		if !ok {
			continue
		}
		for n, rule := range p.Rules {
			if rule.Expires == nil {
				continue
			}
			at := rule.Expires.AsTime()
			left := at.Sub(s.now)
			if left <= 0 || left > ending {
				continue
			}
			then := "what it allows follows the rules behind it from then on, or is denied"
			if rule.Action == v1alpha1.Action_Deny {
				then = "what it denies follows the rules behind it from then on, or is open"
			}
			s.add(admission.Warning, o.Key, fmt.Sprintf("spec.rules[%d].expires", n), at.Format(time.RFC3339), fmt.Sprintf("it ends in %s: %s", inWords(left), then), "write a later time if it is still needed; otherwise remove the rule then")
		}
	}
}

func inWords(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%d hours", max(int(d.Hours()), 1))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// readEgress reads the EgressPolicies. A cluster that does not know the kind has none.
func (o *Objects) readEgress(ctx context.Context, client kubernetes.Interface) error {
	path := "/apis/" + v1alpha1.Group + "/v1alpha1/"
	if o.Namespace != "" {
		path += "namespaces/" + o.Namespace + "/"
	}
	next := ""
	for {
		call := client.Discovery().RESTClient().Get().AbsPath(path+"egresspolicies").Param("limit", fmt.Sprint(pageSize))
		if next != "" {
			call = call.Param("continue", next)
		}
		answer, err := call.DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var list struct {
			Metadata struct{ Continue string }
			Items    []json.RawMessage
		}
		if err := json.Unmarshal(answer, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			o.Egress = append(o.Egress, policiesIn(item)...)
		}
		if next = list.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// policiesIn reads one as the API server has it; what it holds that is not understood is said where it is written, and by lint.
func policiesIn(item []byte) []config.Object {
	return decode.File(string(config.KindEgressPolicy), item).Objects
}
