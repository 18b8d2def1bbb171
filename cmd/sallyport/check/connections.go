package check

import (
	"strings"
	"time"

	"istio.io/api/annotation"

	"github.com/sallyport/sallyport/config/admission"
)

// settle is how long a new pod's proxy may take to connect.
const settle = time.Minute

// byPod are proxies by POD.NAMESPACE.
func byPod(proxies []Proxy) map[string]Proxy {
	connected := map[string]Proxy{}
	for _, p := range proxies {
		if parts := strings.Split(p.ID, "~"); len(parts) == 4 {
			if before, twice := connected[parts[2]]; twice && !before.Synced { // it went from one replica to another
				p.Synced, p.Refused = false, append(before.Refused, p.Refused...)
			}
			connected[parts[2]] = p
		}
	}
	return connected
}

// proxyOf is what the controllers say of a pod's proxy; false where it is connected to none.
func (s *survey) proxyOf(p subject) (Proxy, bool) {
	found, is := s.proxies[p.pod.Name+"."+p.pod.Namespace]
	return found, is
}

// connections judges what the controllers say of the pods' proxies.
func (s *survey) connections() {
	for _, p := range s.running {
		if proxyOf(p.pod) == nil || p.pod.Status.PodIP == "" || s.now.Sub(p.pod.CreationTimestamp.Time) < settle {
			continue
		}
		proxy, ok := s.proxyOf(p)
		switch {
		case !ok:
			s.say(p, admission.Error, "", "", "its proxy is connected to no controller: it goes on with what it was given, and learns of no change",
				"see kubectl -n "+p.pod.Namespace+" logs POD -c istio-proxy")
		case len(proxy.Refused) > 0:
			s.say(p, admission.Error, "", "", "its proxy refuses a part of its configuration: "+oneLine(strings.Join(proxy.Refused, "; ")),
				"see sallyport config "+p.pod.Namespace+"/POD; the part stays as it was")
		case !proxy.Synced:
			s.say(p, admission.Warning, "", "", "its proxy has not taken everything yet", "look again in a moment; if it stays, see sallyport proxies")
		}
	}
}

// images finds proxies of another version than the injector's, and controllers of several.
func (s *survey) images() {
	want := s.Injection.Image
	for _, p := range s.running {
		proxy := proxyOf(p.pod)
		if proxy == nil || p.pod.Annotations[annotation.SidecarProxyImage.Name] != "" || proxy.Image == want {
			continue
		}
		s.say(p, admission.Warning, p.path(`spec.containers["istio-proxy"].image`), proxy.Image, "the proxy is not of the version that pods get now: "+want,
			"create its pods anew: kubectl -n "+p.key.Namespace+" rollout restart")
	}
	s.controllerImages(want)
}

func (s *survey) controllerImages(proxy string) {
	first := ""
	for _, p := range s.running {
		if p.pod.Namespace != s.System || p.pod.Labels["app"] != "sallyport" || len(p.pod.Spec.Containers) == 0 {
			continue
		}
		image := p.pod.Spec.Containers[0].Image
		switch {
		case first == "":
			first = image
			if a, b := tag(image), tag(proxy); a != "" && b != "" && a != b {
				s.add(admission.Warning, key("ConfigMap", s.System, "sallyport-injector"), "data.config: image", proxy, "pods get a proxy of another version than the controller's: "+image,
					"install both by one release of the chart")
			}
		case image != first:
			s.say(p, admission.Warning, p.path("spec.containers[0].image"), image, "another replica runs "+first, "see kubectl -n "+s.System+" rollout status deployment sallyport")
		}
	}
}

// tag is an image's, "" where it has none or a digest.
func tag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.Contains(name, "@") {
		return ""
	}
	_, t, _ := strings.Cut(name, ":")
	return t
}
