//! Leases on handoffs, taking over abandoned rows, and repairing rows that other programs have changed.

use rusqlite::{Connection, params};

use crate::clock;
use crate::domain::Handoff;
use crate::domain::HomeChannel;
use crate::store::{
    Claim, Delivery, DeliveryState, NewDelivery, Store, StoreError, deliveries, handoff_log,
    lenient, lineage, sessions,
};

/// Hermes' CLI writes this error when it gives up.
const CLI_TIMEOUT: &str = "timed out waiting for gateway";

/// A running handoff that may have lost its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Orphan {
    pub session_id: String,
    pub platform: String,
    /// Id and fence. `None` if the journal has no running row for it, because another program left it.
    pub journal: Option<(i64, i64)>,
    pub owner: Option<String>,
    pub lease_until: Option<f64>,
}

impl Store {
    /// Renews all leases of one owner.
    pub async fn renew_leases(&self, owner: &str, until: f64) -> Result<(), StoreError> {
        let owner = owner.to_owned();
        self.write_unflushed(move |c| {
            let renew = "UPDATE hermesd_handoffs INDEXED BY hermesd_handoffs_in_flight SET lease_until = ?2
                         WHERE state IN ('pending', 'running') AND state = 'running' AND owner = ?1";
            c.execute(renew, params![owner, until])?;
            Ok(())
        })
        .await
    }

    /// Releases a claim without ending the handoff. The next owner resumes it and repeats no send that this one made.
    pub async fn release_handoff(&self, claim: &Claim) -> Result<(), StoreError> {
        let (id, fence) = (claim.handoff.id, claim.fence);
        let sent = claim.deliveries.iter();
        let sent: Vec<(i64, String)> = sent
            .filter(|delivery| delivery.state == DeliveryState::Sent)
            .filter_map(|delivery| Some((delivery.id, delivery.message_id.clone()?)))
            .collect();
        let sent_before = claim.handoff.sent_ids.clone();
        self.write(move |c| {
            let released = c.execute(
                "UPDATE hermesd_handoffs SET owner = NULL, lease_until = NULL WHERE id = ?1 AND fence = ?2 AND state = 'running'",
                params![id, fence],
            )?;
            if released == 0 || sent.is_empty() {
                return Ok(());
            }
            for (delivery, message) in &sent {
                deliveries::end(c, *delivery, Ok(message))?;
            }
            let ids = sent_before.iter().chain(sent.iter().map(|(_, message)| message));
            let ids = serde_json::to_string(&ids.collect::<Vec<_>>()).unwrap_or_default();
            c.execute(
                "UPDATE hermesd_handoffs SET sent_ids = ?2 WHERE id = ?1",
                params![id, ids],
            )?;
            Ok(())
        })
        .await
    }

    /// All running rows, with their owners.
    pub async fn running_handoffs(&self) -> Result<Vec<Orphan>, StoreError> {
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT s.id, h.id, h.fence, h.owner, h.lease_until, s.handoff_platform FROM sessions s
                 LEFT JOIN hermesd_handoffs h INDEXED BY hermesd_handoffs_in_flight
                   ON h.session_id = s.id AND h.state IN ('pending', 'running') AND h.state = 'running'
                 WHERE likelihood(s.handoff_state = 'running', 0.000001) AND typeof(s.id) = 'text'",
            )?;
            lenient::readable(statement.query([])?, "sessions", |row| {
                Ok(Orphan {
                    session_id: row.get(0)?,
                    platform: lenient::text(row, 5)?.unwrap_or_default(),
                    journal: row.get::<_, Option<i64>>(1)?.zip(row.get(2)?),
                    owner: row.get(3)?,
                    lease_until: row.get(4)?,
                })
            })
        })
        .await
    }

    /// Takes over a running row, if it is still as it was seen.
    pub async fn take_over(
        &self,
        orphan: &Orphan,
        owner: &str,
        lease_until: f64,
        home_of: impl Fn(&str) -> Option<HomeChannel> + Send + 'static,
    ) -> Result<Option<Claim>, StoreError> {
        let (orphan, owner) = (orphan.clone(), owner.to_owned());
        self.change_unflushed(move |c, changed| {
            let tip = lineage::settle(c, changed, &orphan.session_id)?;
            let session = sessions::by_id(c, &tip)?;
            let Some(session) = session.filter(|s| s.handoff_state.as_deref() == Some("running"))
            else {
                return Ok(None);
            };
            let running = handoff_log::in_flight(c, &session.id)?.filter(|row| row.running);
            let id = match (orphan.journal, running) {
                (Some((id, fence)), Some(row)) if row.id == id => {
                    if handoff_log::hold(c, id, fence).is_err() {
                        return Ok(None);
                    }
                    id
                }
                (None, None) => handoff_log::adopt(
                    c,
                    changed,
                    &session.id,
                    session.handoff_platform.as_deref().unwrap_or_default(),
                )?,
                _ => return Ok(None),
            };
            handoff_log::start(c, &session, id, &owner, lease_until, &home_of).map(Some)
        })
        .await
    }

    /// Closes journal rows that another program has overtaken: the row of their session has another state. Undoes
    /// their changes, and stores the notes that `notes_of` makes for their chats. Returns the closed handoffs, and the
    /// first error that is worth a retry.
    pub async fn close_overtaken(
        &self,
        notes_of: impl Fn(&Handoff) -> Vec<NewDelivery> + Clone + Send + 'static,
    ) -> (Vec<(Handoff, Vec<Delivery>)>, Result<(), StoreError>) {
        let (mut closed, mut outcome) = (Vec::new(), Ok(()));
        let overtaken = match self.look(handoff_log::overtaken) {
            Ok(overtaken) => overtaken,
            Err(error) => return (closed, Err(error)),
        };
        for (id, error) in overtaken {
            let reason = match error.as_str() {
                "" => "withdrawn by another program".to_owned(),
                said => format!("withdrawn by another program: {said}"),
            };
            let notes_of = notes_of.clone();
            // One transaction each: a row that cannot be closed must not block the others.
            let done = self
                .change(move |c, changed| {
                    if !handoff_log::overtaken(c)?
                        .iter()
                        .any(|(other, _)| *other == id)
                    {
                        return Ok(None);
                    }
                    handoff_log::close(c, changed, id, &reason)?;
                    let Some(handoff) = handoff_log::by_id(c, id)? else {
                        return Ok(None);
                    };
                    let notes = deliveries::insert_all(c, &notes_of(&handoff))?;
                    Ok(Some((handoff, notes)))
                })
                .await;
            match done {
                Ok(handoff) => closed.extend(handoff),
                // The lock affects all rows.
                Err(error @ StoreError::Busy(_)) => return (closed, outcome.and(Err(error))),
                Err(error) if error.is_transient() => outcome = outcome.and(Err(error)),
                Err(error) => {
                    tracing::error!(%error, handoff = id, "cannot undo a withdrawn handoff")
                }
            }
        }
        (closed, outcome)
    }

    /// Restores `completed` if Hermes' CLI has written its timeout over a handoff that was settled since `since`.
    /// Returns the sessions.
    ///
    /// The CLI gives up 60 seconds after its request, whatever the row's state. The time distinguishes a newer request
    /// that timed out: it cannot have ended within 60 seconds of the handoff before it.
    pub async fn restore_completed(&self, since: f64) -> Result<Vec<String>, StoreError> {
        let wanted = move |c: &Connection| -> Result<Vec<String>, StoreError> {
            let mut statement = c.prepare_cached(
                "SELECT s.id FROM sessions s
                 WHERE likelihood(s.handoff_state = 'failed', 0.000001) AND s.handoff_error = ?1
                   AND (SELECT h.state = 'completed' AND h.platform = s.handoff_platform AND h.ended_at BETWEEN ?2 AND ?3
                        FROM hermesd_handoffs h
                        WHERE h.id = (SELECT MAX(id) FROM hermesd_handoffs INDEXED BY hermesd_handoffs_session
                                      WHERE session_id = s.id))",
            )?;
            let rows = statement.query(params![CLI_TIMEOUT, since, clock::now()])?;
            lenient::readable(rows, "sessions", |row| row.get(0))
        };
        if self.look(wanted)?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |c| {
            let ids = wanted(c)?;
            for id in &ids {
                c.execute(
                    "UPDATE sessions SET handoff_state = 'completed', handoff_error = NULL
                     WHERE id = ?1 AND handoff_state = 'failed'",
                    [id],
                )?;
            }
            Ok(ids)
        })
        .await
    }

    /// Reopens sessions that a chat or one of our terminals is on. A terminal that exits after its session moved to a
    /// chat ends the row, and so does Hermes when it closes a session in its memory.
    pub async fn reopen_handed_off(&self, since: f64) -> Result<Vec<String>, StoreError> {
        let scope = self.scope();
        let wanted = move |c: &Connection| -> Result<Vec<String>, StoreError> {
            let mut statement = c.prepare_cached(
                "SELECT id FROM sessions s
                 WHERE end_reason IN ('cli_close', 'agent_close', 'tui_close') AND ended_at >= ?1
                   AND (EXISTS (SELECT 1 FROM hermesd_handoffs h INDEXED BY hermesd_handoffs_session
                                WHERE h.session_id = s.id AND h.session_key = s.session_key AND h.state = 'completed'
                                  AND h.ended_at >= ?1 AND h.requested_at <= s.ended_at)
                        OR (end_reason <> 'cli_close'
                            AND (EXISTS (SELECT 1 FROM hermesd_terminals t WHERE t.session_id = s.id)
                                 OR EXISTS (SELECT 1 FROM gateway_routing g
                                            WHERE g.scope = ?2 AND g.session_key = s.session_key
                                              AND json_valid(g.entry_json)
                                              AND json_extract(g.entry_json, '$.session_id') = s.id))))
                 ORDER BY ended_at",
            )?;
            let ids = statement.query_map(params![since, scope], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        };
        if self.read(wanted.clone()).await?.is_empty() {
            return Ok(Vec::new());
        }
        // Checked again under the lock, because another program may have closed the conversation meanwhile.
        self.write(move |c| {
            let ids = wanted(c)?;
            for id in &ids {
                c.execute(
                    "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1",
                    [id],
                )?;
            }
            Ok(ids)
        })
        .await
    }
}
