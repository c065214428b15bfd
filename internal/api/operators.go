package api

import (
	"context"
	"strings"

	"rsc.io/qr"

	"github.com/petrel-im/petrel/internal/operator"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// BeginEnrollment returns the operator for whom a code is, and a secret for the second factor. Spec: P-10.10.
func (s *Server) BeginEnrollment(ctx context.Context,
	r *petrelv1.BeginEnrollmentRequest) (*petrelv1.BeginEnrollmentResponse, error) {
	e, err := s.o.Operators.BeginEnrollment(ctx, r.Code)
	if err != nil {
		return nil, err
	}
	uri := operator.SecretURI(e.Secret, e.Name)
	code, err := qr.Encode(uri, qr.M)
	if err != nil {
		return nil, err
	}
	code.Scale = 4
	return &petrelv1.BeginEnrollmentResponse{
		Name: e.Name, Scopes: e.Scopes, Tenant: e.TenantName, Secret: operator.SecretText(e.Secret), SecretUri: uri,
		SecretPng: code.PNG(), ExpiresMs: uint64(e.Expires.UnixMilli()),
	}, nil
}

// Enroll gives an operator a password and a second factor, and logs them in. Spec: P-10.10.
func (s *Server) Enroll(ctx context.Context, r *petrelv1.EnrollRequest) (*petrelv1.EnrollResponse, error) {
	e, err := s.o.Operators.Enroll(ctx, r.Code, r.Name, r.Password, r.Secret, strings.TrimSpace(r.Digits))
	if err != nil {
		return nil, err
	}
	if e.AdminKey != "" {
		s.o.Redeemed()
	}
	return &petrelv1.EnrollResponse{Session: s.begun(ctx, &e.Session), AdminKey: e.AdminKey}, nil
}

// LogIn logs an operator in, or anybody with an admin key. Spec: P-10.10.
func (s *Server) LogIn(ctx context.Context, r *petrelv1.OperatorLogInRequest) (*petrelv1.OperatorSession, error) {
	ctx = store.ForOperators(ctx)
	var session operator.Session
	var err error
	if r.Key != "" {
		session, err = s.o.Operators.LogInKey(ctx, r.Key, callOf(ctx).remote)
	} else {
		session, err = s.o.Operators.LogInOperator(ctx, r.Name, r.Password, strings.TrimSpace(r.Digits),
			callOf(ctx).remote)
	}
	if err != nil {
		return nil, err
	}
	return s.begun(ctx, &session), nil
}

// begun makes the new session the caller of this call, so that the audit log names it. It returns a description
// of the session.
func (s *Server) begun(ctx context.Context, o *operator.Session) *petrelv1.OperatorSession {
	rate.Vouch(ctx)
	callOf(ctx).caller = &caller{key: &o.Key, expires: o.Expires}
	m := s.session(callOf(ctx).caller)
	m.Token = o.Token
	return m
}

func (s *Server) session(c *caller) *petrelv1.OperatorSession {
	m := &petrelv1.OperatorSession{Name: c.key.Name, Key: c.key.Operator == "", Scopes: c.key.Scopes,
		Tenant: c.key.TenantName, Node: s.o.Node, Version: s.o.Version}
	if !c.expires.IsZero() {
		m.ExpiresMs, m.IdleMs = uint64(c.expires.UnixMilli()), uint64(operator.SessionIdle.Milliseconds())
	}
	return m
}

// GetSession describes the caller.
func (s *Server) GetSession(ctx context.Context,
	_ *petrelv1.GetOperatorSessionRequest) (*petrelv1.OperatorSession, error) {
	return s.session(callOf(ctx).caller), nil
}

// LogOut ends the session that calls.
func (s *Server) LogOut(ctx context.Context,
	_ *petrelv1.OperatorLogOutRequest) (*petrelv1.OperatorLogOutResponse, error) {
	return &petrelv1.OperatorLogOutResponse{}, s.o.Operators.EndSession(ctx, callOf(ctx).caller.credential)
}

// ListOperators lists the operators by name.
func (s *Server) ListOperators(ctx context.Context,
	_ *petrelv1.ListOperatorsRequest) (*petrelv1.ListOperatorsResponse, error) {
	list, err := s.o.Operators.Operators(ctx)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListOperatorsResponse{}
	for i := range list {
		res.Operators = append(res.Operators, operatorInfo(&list[i]))
	}
	return res, nil
}

// CreateOperator makes an operator, and a code with which they enroll.
func (s *Server) CreateOperator(ctx context.Context,
	r *petrelv1.CreateOperatorRequest) (*petrelv1.EnrollmentCode, error) {
	code, o, err := s.o.Operators.CreateOperator(ctx, r.Name, r.TenantName, r.Scopes)
	return enrollmentCode(code, &o, err)
}

// ChangeOperator changes the rights of an operator.
func (s *Server) ChangeOperator(ctx context.Context,
	r *petrelv1.ChangeOperatorRequest) (*petrelv1.OperatorInfo, error) {
	was, now, err := s.o.Operators.ChangeOperator(ctx, r.Name, r.Scopes, r.Disabled)
	if err != nil {
		return nil, err
	}
	recordChange(ctx, "scopes", strings.Join(was.Scopes, ","), strings.Join(now.Scopes, ","))
	recordChange(ctx, "disabled", yesNo(was.Disabled), yesNo(now.Disabled))
	return operatorInfo(&now), nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// ResetOperator makes a code for an operator who has lost their password or second factor.
func (s *Server) ResetOperator(ctx context.Context,
	r *petrelv1.ResetOperatorRequest) (*petrelv1.EnrollmentCode, error) {
	code, o, err := s.o.Operators.ResetOperator(ctx, r.Name)
	return enrollmentCode(code, &o, err)
}

// RemoveOperator removes an operator.
func (s *Server) RemoveOperator(ctx context.Context,
	r *petrelv1.RemoveOperatorRequest) (*petrelv1.RemoveOperatorResponse, error) {
	return &petrelv1.RemoveOperatorResponse{}, s.o.Operators.RemoveOperator(ctx, r.Name)
}

// enrollPath is the page of the console on which an operator redeems a code. A browser does not send the part of
// a URL after #, so the code is in no log.
const enrollPath = "/admin/enroll#k="

func enrollmentCode(code string, o *operator.Operator, err error) (*petrelv1.EnrollmentCode, error) {
	if err != nil {
		return nil, err
	}
	return &petrelv1.EnrollmentCode{Operator: operatorInfo(o), Code: code, Path: enrollPath + code}, nil
}

func operatorInfo(o *operator.Operator) *petrelv1.OperatorInfo {
	m := &petrelv1.OperatorInfo{
		Name: o.Name, Scopes: o.Scopes, Tenant: o.TenantName, CreatedMs: uint64(o.Created.UnixMilli()),
		Enrolled: o.Enrolled, Disabled: o.Disabled, Sessions: uint32(o.Sessions),
	}
	if !o.LoggedIn.IsZero() {
		m.LoggedInMs = uint64(o.LoggedIn.UnixMilli())
	}
	if !o.CodeExpires.IsZero() {
		m.CodeExpiresMs = uint64(o.CodeExpires.UnixMilli())
	}
	return m
}
