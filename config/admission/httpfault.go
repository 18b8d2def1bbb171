package admission

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/route"
)

func (r *report) fault(field string, f *networking.HTTPFaultInjection) {
	if f == nil {
		return
	}
	if f.Delay == nil && f.Abort == nil {
		r.reject(field, nil, "says nothing", "write delay or abort")
	}
	r.delay(at(field, "delay"), f.Delay)
	r.abort(at(field, "abort"), f.Abort)
}

func (r *report) delay(field string, d *networking.HTTPFaultInjection_Delay) {
	if d == nil {
		return
	}
	r.share(at(field, "percentage.value"), d.Percentage)
	if d.Percentage == nil && d.Percent == 0 {
		r.warn(at(field, "percentage"), nil, "is missing, so no request is delayed", "write it, as in {value: 100} for all")
	}
	switch x := d.HttpDelayType.(type) {
	case *networking.HTTPFaultInjection_Delay_FixedDelay:
		r.positive(at(field, "fixedDelay"), x.FixedDelay)
	case *networking.HTTPFaultInjection_Delay_ExponentialDelay:
		r.reject(at(field, "exponentialDelay"), x.ExponentialDelay.AsDuration(), "is not supported", "write fixedDelay")
	}
}

func (r *report) abort(field string, a *networking.HTTPFaultInjection_Abort) {
	if a == nil {
		return
	}
	r.share(at(field, "percentage.value"), a.Percentage)
	if a.Percentage == nil {
		r.warn(at(field, "percentage"), nil, "is missing, so no request is aborted", "write it, as in {value: 100} for all")
	}
	switch x := a.ErrorType.(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		r.status(at(field, "httpStatus"), x.HttpStatus)
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		if _, is := route.GRPCCode(x.GrpcStatus); !is {
			r.reject(at(field, "grpcStatus"), x.GrpcStatus, "is no status of gRPC", "write one of "+strings.Join(route.GRPCCodes, ", "))
		}
	case *networking.HTTPFaultInjection_Abort_Http2Error:
		r.reject(at(field, "http2Error"), x.Http2Error, "is not supported", "write httpStatus or grpcStatus")
	default:
		r.warn(field, nil, "says not what to answer", "write httpStatus or grpcStatus")
	}
}

// share takes percentages of requests, from Envoy's smallest on.
func (r *report) share(field string, p *networking.Percent) {
	if p != nil && (p.Value < 0 || p.Value > 100 || p.Value > 0 && p.Value < 0.0001) {
		r.reject(field, p.Value, "is no percentage", "write 0, or a number from 0.0001 to 100")
	}
}
