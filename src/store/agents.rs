//! Stores which agent a session has, and retracts the rows of an agent's interrupted turn.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Store, StoreError, lineage, retract, sessions, turns};

impl Store {
    /// The agent that was chosen for this session.
    pub fn remembered_agent(&self, session_id: &str) -> Result<Option<String>, StoreError> {
        self.look(|c| {
            let mut statement =
                c.prepare_cached("SELECT agent FROM hermesd_agents WHERE session_id = ?1")?;
            for id in lineage::lineage(c, session_id)? {
                let agent = statement.query_row([id], |row| row.get(0)).optional()?;
                if agent.is_some() {
                    return Ok(agent);
                }
            }
            Ok(None)
        })
    }

    pub async fn remember_agent(&self, session_id: &str, agent: &str) -> Result<(), StoreError> {
        let (session_id, agent) = (session_id.to_owned(), agent.to_owned());
        self.write(move |c| remember(c, &session_id, &agent)).await
    }

    /// The source of a session.
    pub fn source_of(&self, session_id: &str) -> Result<Option<String>, StoreError> {
        self.look(|c| Ok(sessions::by_id(c, session_id)?.map(|session| session.source)))
    }

    /// The ACP agent's id of a session, and the number of messages that the agent has seen.
    pub fn acp_session(
        &self,
        session_id: &str,
        command: &str,
    ) -> Result<Option<(String, usize)>, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(
                "SELECT name, messages FROM hermesd_acp_sessions WHERE session_id = ?1 AND command = ?2",
            )?;
            let known = statement.query_row([session_id, command], |row| {
                let messages: i64 = row.get(1)?;
                Ok((row.get(0)?, usize::try_from(messages).unwrap_or_default()))
            });
            Ok(known.optional()?)
        })
    }

    pub async fn remember_acp_session(
        &self,
        session_id: &str,
        command: &str,
        name: &str,
        messages: usize,
    ) -> Result<(), StoreError> {
        let words = [session_id, command, name].map(str::to_owned);
        self.write_unflushed(move |c| {
            let [session_id, command, name] = &words;
            c.execute(
                "INSERT INTO hermesd_acp_sessions (session_id, command, name, messages) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (session_id) DO UPDATE SET command = ?2, name = ?3, messages = ?4",
                params![session_id, command, name, messages as i64],
            )?;
            Ok(())
        })
        .await
    }

    /// Marks the rows that an agent wrote in its turn inactive, as a rewind does, so that the turn can be repeated.
    /// False if the transcript was compacted and the turn's words are not found. Then no row changes.
    pub async fn retract_turn(&self, session_id: &str) -> Result<bool, StoreError> {
        self.retract_turn_with(session_id, "").await
    }

    /// The same, but only for a turn whose words contain `mark`.
    pub async fn retract_turn_with(
        &self,
        session_id: &str,
        mark: &str,
    ) -> Result<bool, StoreError> {
        let (session_id, mark) = (session_id.to_owned(), mark.to_owned());
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let turn = turns::running(c, &session_id)?;
            if !turn.is_some_and(|turn| turn.has(&mark)) {
                return Ok(true);
            }
            let rows = turns::rows_of_agent(c, &session_id)?;
            if let Some(rows) = rows.as_ref().filter(|rows| !rows.is_empty()) {
                retract::retract_rows(c, &session_id, rows)?;
            }
            c.execute(
                "UPDATE hermesd_turns SET running = 0, words = NULL WHERE session_id = ?1",
                [&session_id],
            )?;
            Ok(rows.is_some())
        })
        .await
    }
}

pub(super) fn remember(c: &Connection, session_id: &str, agent: &str) -> Result<(), StoreError> {
    c.execute(
        "INSERT INTO hermesd_agents (session_id, agent) VALUES (?1, ?2)
         ON CONFLICT (session_id) DO UPDATE SET agent = ?2",
        params![session_id, agent],
    )?;
    Ok(())
}
