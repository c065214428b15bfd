package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The server does not make backups and cannot see where they are. It stores the reports of petrel backup and
// petrel backup verify, so that operators see the age of the last backup.

const (
	keptBackups   = 50
	maxBackupText = 512 // bytes of each text
)

func backupKey(b *storepb.Backup) []byte {
	return append(binary.BigEndian.AppendUint64(nil, b.MadeMs), b.Name...)
}

// NoteBackup stores the report of a backup, or of its verification.
func (s *Server) NoteBackup(ctx context.Context, r *petrelv1.NoteBackupRequest) (*petrelv1.NoteBackupResponse, error) {
	b := r.Backup
	if b.GetName() == "" || max(len(b.GetName()), len(b.GetFolder()), len(b.GetFault())) > maxBackupText {
		return nil, im.Errorf(im.CodeInvalid, "backup has a name, and no text of more than %d bytes", maxBackupText)
	}
	rec := &storepb.Backup{Name: b.Name, Folder: b.Folder, MadeMs: b.MadeMs, Commit: b.Commit, CommitMs: b.CommitMs,
		Bytes: b.Bytes, CopiedBytes: b.CopiedBytes, TookMs: b.TookMs}
	var keys [][]byte
	err := s.o.Store.Records(ctx, store.Backups, 0, nil, func(key, value []byte) bool {
		keys = append(keys, bytes.Clone(key))
		if known := (&storepb.Backup{}); b.MadeMs == 0 && known.UnmarshalVT(bytes.Clone(value)) == nil &&
			known.Name == b.Name && known.Commit == b.Commit {
			rec = known // the report is of its verification
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if rec.MadeMs == 0 {
		rec.MadeMs = b.CommitMs // the backup was made while the server did not run
	}
	rec.VerifiedMs, rec.Sound, rec.Fault = b.VerifiedMs, b.Sound, b.Fault
	value, err := rec.MarshalVT()
	if err != nil {
		return nil, err
	}
	puts := []store.RecordPut{{Table: store.Backups, Key: backupKey(rec), Value: value}}
	for len(keys) > keptBackups {
		puts = append(puts, store.RecordPut{Table: store.Backups, Key: keys[0]})
		keys = keys[1:]
	}
	return &petrelv1.NoteBackupResponse{}, s.o.Store.Update(ctx, puts)
}

// ListBackups lists the reported backups, newest first.
func (s *Server) ListBackups(ctx context.Context,
	_ *petrelv1.ListBackupsRequest) (*petrelv1.ListBackupsResponse, error) {
	res := &petrelv1.ListBackupsResponse{Kind: s.o.Console.Kind}
	var bad error
	err := s.o.Store.Records(ctx, store.Backups, 0, nil, func(_, value []byte) bool {
		b := &storepb.Backup{}
		if bad = b.UnmarshalVT(bytes.Clone(value)); bad == nil {
			res.Backups = append(res.Backups, &petrelv1.BackupInfo{
				Name: b.Name, Folder: b.Folder, MadeMs: b.MadeMs, Commit: b.Commit, CommitMs: b.CommitMs,
				Bytes: b.Bytes, CopiedBytes: b.CopiedBytes, TookMs: b.TookMs,
				VerifiedMs: b.VerifiedMs, Sound: b.Sound, Fault: b.Fault,
			})
		}
		return bad == nil
	})
	if err == nil && bad != nil {
		err = fmt.Errorf("read backups: %w", store.ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	slices.Reverse(res.Backups)
	res.Backups = res.Backups[:min(len(res.Backups), keptBackups)]
	return res, nil
}
