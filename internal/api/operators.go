package api

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"rsc.io/qr"

	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// operatorService serves OperatorService. It is a type of its own because LogIn there and
// Login of users are not the same.
type operatorService struct{ *Server }

// BeginEnrollment says what a code is for. Spec: P-10.10.
func (s operatorService) BeginEnrollment(ctx context.Context, r *connect.Request[petrelv1.BeginEnrollmentRequest]) (*connect.Response[petrelv1.BeginEnrollmentResponse], error) {
	e, err := s.users.BeginEnrollment(ctx, r.Msg.Code)
	if err != nil {
		return nil, err
	}
	uri := user.SecretURI(e.Secret, e.Name)
	code, err := qr.Encode(uri, qr.M)
	if err != nil {
		return nil, err
	}
	code.Scale = 4
	return connect.NewResponse(&petrelv1.BeginEnrollmentResponse{
		Name: e.Name, Scopes: e.Scopes, Tenant: e.TenantName, Secret: user.SecretText(e.Secret), SecretUri: uri, SecretPng: code.PNG(), ExpiresMs: uint64(e.Expires.UnixMilli()),
	}), nil
}

// Enroll makes an operator, and logs them in. Spec: P-10.10.
func (s operatorService) Enroll(ctx context.Context, r *connect.Request[petrelv1.EnrollRequest]) (*connect.Response[petrelv1.EnrollResponse], error) {
	m := r.Msg
	e, err := s.users.Enroll(ctx, m.Code, m.Name, m.Password, m.Secret, strings.TrimSpace(m.Digits))
	if err != nil {
		return nil, err
	}
	if e.AdminKey != "" {
		s.o.Redeemed()
	}
	return connect.NewResponse(&petrelv1.EnrollResponse{Session: s.begun(ctx, &e.Session), AdminKey: e.AdminKey}), nil
}

// LogIn logs an operator in, or anybody with an admin key. Spec: P-10.10.
func (s operatorService) LogIn(ctx context.Context, r *connect.Request[petrelv1.OperatorLogInRequest]) (*connect.Response[petrelv1.OperatorSession], error) {
	m := r.Msg
	ctx = store.ForOperators(ctx)
	var session user.OperatorSession
	var err error
	if m.Key != "" {
		session, err = s.users.LogInKey(ctx, m.Key, remote(r))
	} else {
		session, err = s.users.LogInOperator(ctx, m.Name, m.Password, strings.TrimSpace(m.Digits), remote(r))
	}
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(s.begun(ctx, &session)), nil
}

// begun is a session that has begun in this call, which counts as one of its own for the
// audit log.
func (s operatorService) begun(ctx context.Context, o *user.OperatorSession) *petrelv1.OperatorSession {
	rate.Vouch(ctx)
	callOf(ctx).caller = &caller{key: &o.Key, expires: o.Expires}
	m := s.session(callOf(ctx).caller)
	m.Token = o.Token
	return m
}

func (s operatorService) session(c *caller) *petrelv1.OperatorSession {
	m := &petrelv1.OperatorSession{Name: c.key.Name, Key: c.key.Operator == "", Scopes: c.key.Scopes, Tenant: c.key.TenantName, Node: s.o.Node, Version: s.o.Version}
	if !c.expires.IsZero() {
		m.ExpiresMs, m.IdleMs = uint64(c.expires.UnixMilli()), uint64(user.SessionIdle.Milliseconds())
	}
	return m
}

// GetSession says who calls.
func (s operatorService) GetSession(ctx context.Context, _ *connect.Request[petrelv1.GetOperatorSessionRequest]) (*connect.Response[petrelv1.OperatorSession], error) {
	return connect.NewResponse(s.session(callOf(ctx).caller)), nil
}

// LogOut ends the session that calls.
func (s operatorService) LogOut(ctx context.Context, _ *connect.Request[petrelv1.OperatorLogOutRequest]) (*connect.Response[petrelv1.OperatorLogOutResponse], error) {
	return respond(&petrelv1.OperatorLogOutResponse{}, s.users.EndSession(ctx, callOf(ctx).caller.credential))
}

// ListOperators lists the operators by name.
func (s adminService) ListOperators(ctx context.Context, _ *connect.Request[petrelv1.ListOperatorsRequest]) (*connect.Response[petrelv1.ListOperatorsResponse], error) {
	list, err := s.users.Operators(ctx)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListOperatorsResponse{}
	for i := range list {
		res.Operators = append(res.Operators, operatorInfo(&list[i]))
	}
	return connect.NewResponse(res), nil
}

// CreateOperator makes a code for an operator.
func (s adminService) CreateOperator(ctx context.Context, r *connect.Request[petrelv1.CreateOperatorRequest]) (*connect.Response[petrelv1.EnrollmentCode], error) {
	code, o, err := s.users.CreateOperator(ctx, r.Msg.Name, r.Msg.TenantName, r.Msg.Scopes)
	return enrollmentCode(code, &o, err)
}

// ChangeOperator changes what an operator may do.
func (s adminService) ChangeOperator(ctx context.Context, r *connect.Request[petrelv1.ChangeOperatorRequest]) (*connect.Response[petrelv1.OperatorInfo], error) {
	was, now, err := s.users.ChangeOperator(ctx, r.Msg.Name, r.Msg.Scopes, r.Msg.Disabled)
	if err != nil {
		return nil, err
	}
	changed(ctx, "scopes", strings.Join(was.Scopes, ","), strings.Join(now.Scopes, ","))
	changed(ctx, "disabled", yesNo(was.Disabled), yesNo(now.Disabled))
	return connect.NewResponse(operatorInfo(&now)), nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// ResetOperator makes a code for an operator who has lost their password or second factor.
func (s adminService) ResetOperator(ctx context.Context, r *connect.Request[petrelv1.ResetOperatorRequest]) (*connect.Response[petrelv1.EnrollmentCode], error) {
	code, o, err := s.users.ResetOperator(ctx, r.Msg.Name)
	return enrollmentCode(code, &o, err)
}

// RemoveOperator removes an operator.
func (s adminService) RemoveOperator(ctx context.Context, r *connect.Request[petrelv1.RemoveOperatorRequest]) (*connect.Response[petrelv1.RemoveOperatorResponse], error) {
	return respond(&petrelv1.RemoveOperatorResponse{}, s.users.RemoveOperator(ctx, r.Msg.Name))
}

// enrollPath is where the console lets operators in who have a code. What stands behind #
// is not sent by a browser, so it is in no log.
const enrollPath = "/admin/enroll#k="

func enrollmentCode(code string, o *user.Operator, err error) (*connect.Response[petrelv1.EnrollmentCode], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&petrelv1.EnrollmentCode{Operator: operatorInfo(o), Code: code, Path: enrollPath + code}), nil
}

func operatorInfo(o *user.Operator) *petrelv1.OperatorInfo {
	m := &petrelv1.OperatorInfo{
		Name: o.Name, Scopes: o.Scopes, Tenant: o.TenantName, CreatedMs: uint64(o.Created.UnixMilli()), Enrolled: o.Enrolled, Disabled: o.Disabled, Sessions: uint32(o.Sessions),
	}
	if !o.LoggedIn.IsZero() {
		m.LoggedInMs = uint64(o.LoggedIn.UnixMilli())
	}
	if !o.CodeExpires.IsZero() {
		m.CodeExpiresMs = uint64(o.CodeExpires.UnixMilli())
	}
	return m
}
