import type { Conversation, MemberRef } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type FormEvent, type ReactElement, useState } from 'react'
import { nameOf } from '../account/useName.js'
import { Dialog } from '../../ui/Dialog.js'
import { Button, Menu, MenuItem, type MenuPlace, RowButton, useToast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useMembers } from '../chat/useMembers.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useGo } from '../environment.js'
import { ConfirmDialog, type Question } from './ConfirmDialog.js'
import { MemberList } from './MemberList.js'
import { membersFailure } from './membersFailure.js'
import { useChoice, UserPicker } from './UserPicker.js'

/** The members of a group, and the actions of the person on them and on the group. */
export function GroupInfo({ conversation: v }: { readonly conversation: Conversation }): ReactElement | null {
  const { t } = useLaterTranslation()
  const client = useClient()
  const session = useSession()
  const { user } = session
  const go = useGo()
  const toast = useToast()
  const members = useMembers(v)
  const [adding, setAdding] = useState(false)
  const [menu, setMenu] = useState<{ readonly member: MemberRef; readonly at: MenuPlace } | undefined>(undefined)
  const [question, setQuestion] = useState<Question | undefined>(undefined)
  if (v.left) return null
  const owns = v.role === 'owner'
  const leads = owns || v.role === 'admin'
  const done = (change: Promise<void>): void => void change.catch((why: unknown) => toast(thrownText(why, t)))
  const mayRemove = (m: MemberRef): boolean => m.user !== user && (owns || v.role === 'admin' && m.role === 'member')
  return (
    <>
      <section className="info-part">
        {members.length > 0 && <h3 className="info-title">{t('memberCount', { n: members.length })}</h3>}
        {leads && <RowButton icon="add" onClick={() => setAdding(true)}>{t('addMembers')}</RowButton>}
        <MemberList members={members} onSelect={(member, at) => setMenu({ member, at })} />
      </section>
      {members.length > 0 && ( // below the members, so that a late list does not move under the pointer
        <section className="info-part">
          {(!owns || members.length === 1) && <RowButton icon="exit" danger onClick={() => setQuestion({ text: t('leaveQuestion', { title: v.title }), yes: 'leave', act: () => client.leaveGroup(v.id) })}>{t('leaveGroup')}</RowButton>}
          {owns && members.length > 1 && <p className="info-note">{t('ownerCannotLeave')}</p>}
          {owns && <RowButton icon="trash" danger onClick={() => setQuestion({ text: t('dissolveQuestion', { title: v.title }), yes: 'dissolve', act: () => client.dissolveGroup(v.id) })}>{t('dissolveGroup')}</RowButton>}
        </section>
      )}
      {menu && (
        <Menu at={menu.at} label={nameOf(session, menu.member.user)} onClose={() => setMenu(undefined)}>
          <MenuItem icon="person" onSelect={() => go({ account: user, conv: v.id, info: true, person: menu.member.user })}>{t('showProfile')}</MenuItem>
          <MenuItem icon="write" onSelect={() => go({ account: user, user: menu.member.user })}>{t('writeTo')}</MenuItem>
          {owns && menu.member.role === 'member' && <MenuItem icon="person" onSelect={() => done(client.setRole(v.id, menu.member.user, 'admin'))}>{t('makeAdmin')}</MenuItem>}
          {owns && menu.member.role === 'admin' && <MenuItem icon="person" onSelect={() => done(client.setRole(v.id, menu.member.user, 'member'))}>{t('makeMember')}</MenuItem>}
          {owns && menu.member.user !== user && <MenuItem icon="crown" onSelect={() => setQuestion({ text: t('handOverQuestion', { name: nameOf(session, menu.member.user) }), yes: 'handOver', act: () => client.transferOwnership(v.id, menu.member.user) })}>{t('handOver')}</MenuItem>}
          {mayRemove(menu.member) && <MenuItem icon="ban" danger onSelect={() => setQuestion({ text: t('removeQuestion', { name: nameOf(session, menu.member.user), title: v.title }), yes: 'removeMember', act: () => client.removeMembers(v.id, [menu.member.user]) })}>{t('removeMember')}</MenuItem>}
        </Menu>
      )}
      {adding && <AddDialog conv={v.id} members={members} onClose={() => setAdding(false)} />}
      {question && <ConfirmDialog {...question} onClose={() => setQuestion(undefined)} />}
    </>
  )
}

function AddDialog({ conv, members, onClose }: { readonly conv: string; readonly members: readonly MemberRef[]; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const session = useSession()
  const choice = useChoice(members.map((m) => m.user))
  const add = async (e: FormEvent): Promise<void> => {
    e.preventDefault()
    try {
      const users = await choice.take()
      if (!users) return
      await client.addMembers(conv, users)
      onClose()
    } catch (why) {
      choice.refuse(membersFailure(why, session, t))
    }
  }
  return (
    <Dialog title={t('addMembers')} closeLabel={t('close')} onClose={onClose} foot={<Button look="primary" type="submit" form="add-members" disabled={choice.chosen.length === 0 && choice.typed.trim() === ''}>{t('add')}</Button>}>
      <form id="add-members" className="dialog-body" onSubmit={(e) => void add(e)}><UserPicker choice={choice} /></form>
    </Dialog>
  )
}
