//! Finds, lists, creates and ends rows of `sessions`.

use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::binding::SOFT_ENDS;
use super::features::{self, Feature};
use super::session_names::{live_end, with_first_words};
use super::{Store, StoreError, lenient, lineage};
use crate::clock;
use crate::domain::Session;

/// The columns that are read. The system prompt is long, so [`system_prompt`] reads it only for turns.
pub(super) const COLUMNS: &str = "id, source, title, model, session_key, chat_id, thread_id, started_at, ended_at, \
                       end_reason, message_count, handoff_state, handoff_platform, handoff_error, cwd";

/// End reasons by which Hermes recognises that a chat began a new conversation.
const RESET_REASONS: &str =
    "('session_reset', 'session_switch', 'idle', 'daily', 'suspended', 'resume_pending_expired')";

/// The longest lineage that is followed. A longer one is circular or damaged.
pub(super) const LONGEST_LINEAGE: usize = 10_000;

#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    pub source: Option<String>,
    /// Only sessions that have not ended.
    pub live: bool,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SessionMatch {
    One(Box<Session>),
    None,
    Many(Vec<Session>),
}

impl Store {
    /// The working directory of a session, if it has one.
    pub fn cwd_of(&self, session_id: &str) -> Result<Option<PathBuf>, StoreError> {
        let cwd = self.look(|c| cwd_of(c, session_id))?;
        Ok(cwd.map(PathBuf::from))
    }

    pub async fn session(&self, id: &str) -> Result<Option<Session>, StoreError> {
        let id = id.to_owned();
        self.read(move |c| by_id(c, &id)).await
    }

    /// The tip of the conversation of this exact id.
    pub fn session_with_id(&self, id: &str) -> Result<Option<Session>, StoreError> {
        self.look(|c| match by_id(c, id)? {
            Some(session) => live_end(c, session).map(Some),
            None => Ok(None),
        })
    }

    pub async fn list_sessions(&self, filter: SessionFilter) -> Result<Vec<Session>, StoreError> {
        self.read(move |c| {
            let sessions = list(c, &filter)?.into_iter();
            sessions
                .map(|session| with_first_words(c, session))
                .collect()
        })
        .await
    }

    /// The tip of a session, which context compression may have split.
    pub async fn tip(&self, id: &str) -> Result<String, StoreError> {
        let id = id.to_owned();
        self.read(move |c| tip(c, &id)).await
    }

    /// Creates a session, for the demo and for chats without one.
    pub async fn create_session(
        &self,
        source: &str,
        title: Option<&str>,
        model: Option<&str>,
    ) -> Result<String, StoreError> {
        let (source, title, model) = (
            source.to_owned(),
            title.map(str::to_owned),
            model.map(str::to_owned),
        );
        let profile = self.profile();
        self.write(move |c| {
            let new = NewSession {
                id: &clock::session_id(clock::now()),
                source: &source,
                title: title.as_deref(),
                model: model.as_deref(),
                cwd: None,
                profile: &profile,
            };
            create(c, &new)
        })
        .await
    }

    /// Sets or removes a title. Titles are unique: [`StoreError::Conflict`] if another conversation has this one.
    pub async fn rename_session(&self, id: &str, title: Option<&str>) -> Result<(), StoreError> {
        let (id, title) = (id.to_owned(), title.map(str::to_owned));
        self.write(move |c| {
            if let Some(title) = &title {
                check_title(c, title, &id)?;
            }
            c.execute(
                "UPDATE sessions SET title = ?2 WHERE id = ?1",
                params![id, title],
            )?;
            // Without this, Hermes takes the title for a generated one and replaces it.
            if features::has(c, Feature::TitleSource)? {
                let source = title.is_some().then_some("user");
                c.execute(
                    "UPDATE sessions SET title_source = ?2 WHERE id = ?1",
                    params![id, source],
                )?;
            }
            Ok(())
        })
        .await
    }

    pub async fn session_count(&self) -> Result<i64, StoreError> {
        self.read(|c| Ok(c.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))?))
            .await
    }
}

/// The values of a new row.
pub(super) struct NewSession<'a> {
    pub(super) id: &'a str,
    pub(super) source: &'a str,
    pub(super) title: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    pub(super) cwd: Option<&'a str>,
    /// The profile of the home. Hermes lists rows by it.
    pub(super) profile: &'a str,
}

pub(super) fn create(c: &Connection, new: &NewSession<'_>) -> Result<String, StoreError> {
    c.execute(
        "INSERT INTO sessions (id, source, title, model, started_at, profile_name, cwd) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            new.id,
            new.source,
            new.title,
            new.model,
            clock::now(),
            new.profile,
            new.cwd
        ],
    )?;
    if features::has(c, Feature::CreatedSource)? {
        c.execute(
            "UPDATE sessions SET created_source = source WHERE id = ?1",
            [new.id],
        )?;
    }
    Ok(new.id.to_owned())
}

/// The directory that a session works in. A row that continues a compressed one may leave it to that.
pub(super) fn cwd_of(c: &Connection, session_id: &str) -> Result<Option<String>, StoreError> {
    let mut statement = c.prepare_cached("SELECT cwd FROM sessions WHERE id = ?1")?;
    for id in lineage::lineage(c, session_id)? {
        let cwd = statement
            .query_row([id], |row| lenient::text(row, 0))
            .optional()?;
        let cwd = cwd.flatten().filter(|cwd| !cwd.is_empty());
        if cwd.is_some() {
            return Ok(cwd);
        }
    }
    Ok(None)
}

/// Gives a session a directory. One that it has already stays, unless `moves`.
pub(super) fn work_in(
    c: &Connection,
    session_id: &str,
    cwd: &str,
    moves: bool,
) -> Result<(), StoreError> {
    let has = cwd_of(c, session_id)?;
    if has.is_some() && !moves || has.as_deref() == Some(cwd) {
        return Ok(());
    }
    // What Hermes knows about the repository of the old directory is not true of the new one.
    c.prepare_cached(
        "UPDATE sessions SET cwd = ?2, git_branch = NULL, git_repo_root = NULL WHERE id = ?1",
    )?
    .execute([session_id, cwd])?;
    Ok(())
}

/// The system prompt of a session. Left out if it is too long for any model.
pub(super) fn system_prompt(c: &Connection, id: &str) -> Result<Option<String>, StoreError> {
    // Newer files store prompts by their hash in a table of their own, and leave the column empty.
    let sql = match features::has(c, Feature::SystemPrompts)? {
        true => {
            "SELECT CASE WHEN octet_length(prompt) > 4194304 THEN NULL ELSE prompt END FROM
               (SELECT COALESCE((SELECT prompt FROM system_prompts WHERE hash = sessions.system_prompt_hash),
                                system_prompt) AS prompt
                FROM sessions WHERE id = ?1)"
        }
        false => {
            "SELECT CASE WHEN octet_length(system_prompt) > 4194304 THEN NULL ELSE system_prompt END
             FROM sessions WHERE id = ?1"
        }
    };
    let prompt = c
        .prepare_cached(sql)?
        .query_row([id], |row| lenient::text(row, 0))
        .optional()?;
    Ok(prompt.flatten())
}

/// Checks that no other conversation has this title. If an earlier row of the same conversation has it, it is removed
/// there, because people do not see such rows.
pub(super) fn check_title(c: &Connection, title: &str, id: &str) -> Result<(), StoreError> {
    let holder: Option<String> = c
        .query_row(
            "SELECT id FROM sessions WHERE title = ?1 AND id <> ?2",
            [title, id],
            |row| lenient::name(row, 0),
        )
        .optional()?;
    if let Some(holder) = holder {
        if tip(c, &holder)? != id {
            return Err(StoreError::Conflict(format!(
                "the title {title:?} belongs to session {holder}"
            )));
        }
        c.execute("UPDATE sessions SET title = NULL WHERE id = ?1", [holder])?;
    }
    Ok(())
}

/// Reopens an ended row. A row that ended by compression stays ended, because another row continues it.
pub(super) fn reopen(c: &Connection, id: &str) -> Result<(), StoreError> {
    let ended = c
        .prepare_cached(
            "SELECT 1 FROM sessions
             WHERE id = ?1 AND ended_at IS NOT NULL AND COALESCE(end_reason, '') <> 'compression'",
        )?
        .exists([id])?;
    if !ended {
        return Ok(());
    }
    if features::has(c, Feature::TurnLeases)? {
        mark_reset_children(c, id)?;
    }
    c.prepare_cached("UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

/// Marks the conversations that began when this one was reset. Hermes recognises unmarked ones only by the end reason,
/// which is about to be cleared. It would then take them for parts of this conversation.
fn mark_reset_children(c: &Connection, id: &str) -> Result<(), StoreError> {
    c.prepare_cached(&format!(
        "UPDATE sessions SET model_config = json_set(COALESCE(model_config, '{{}}'), '$._reset_from', parent_session_id)
         WHERE likelihood(parent_session_id = ?1, 0.000001)
           AND COALESCE(session_key, '') <> ''
           AND session_key = (SELECT session_key FROM sessions WHERE id = ?1 AND end_reason IN {RESET_REASONS})
           AND json_valid(COALESCE(model_config, '{{}}'))
           AND json_extract(COALESCE(model_config, '{{}}'), '$._reset_from') IS NULL"
    ))?
    .execute([id])?;
    Ok(())
}

/// Ends a row at a boundary of its chat: `session_switch` or `session_reset`. A row that was closed for another reason
/// stays as it is. False if nothing changed.
pub(super) fn end_at_boundary(c: &Connection, id: &str, reason: &str) -> Result<bool, StoreError> {
    let ended = c
        .prepare_cached(&format!(
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3
             WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN {SOFT_ENDS})"
        ))?
        .execute(params![id, clock::now(), reason])?;
    if ended == 1 && features::has(c, Feature::Generations)? {
        // The count never decreases. Work from before the boundary stays outdated, even if the row is reopened.
        c.prepare_cached(
            "INSERT INTO conversation_generations (source, session_key, generation)
             SELECT source, session_key, 1 FROM sessions WHERE id = ?1 AND COALESCE(session_key, '') <> ''
             ON CONFLICT (source, session_key) DO UPDATE SET generation = generation + 1",
        )?
        .execute([id])?;
    }
    Ok(ended == 1)
}

pub(super) fn by_id(c: &Connection, id: &str) -> Result<Option<Session>, StoreError> {
    let mut statement =
        c.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"))?;
    Ok(statement.query_row([id], session).optional()?)
}

/// The tips of the sessions that exist, in order, without repeats.
pub(super) fn tips(c: &Connection, ids: &[String]) -> Result<Vec<Session>, StoreError> {
    let mut found: Vec<Session> = Vec::new();
    for id in ids {
        let session = by_id(c, &tip(c, id)?)?;
        found.extend(session.filter(|session| found.iter().all(|f| f.id != session.id)));
    }
    Ok(found)
}

/// The newest sessions.
pub(super) fn list(c: &Connection, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE (?1 IS NULL OR source = ?1) AND (?2 = 0 OR ended_at IS NULL) \
         ORDER BY started_at DESC LIMIT ?3"
    );
    collect(
        c,
        &sql,
        params![filter.source, filter.live, filter.limit as i64],
    )
}

pub(super) fn collect(
    c: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<Session>, StoreError> {
    let mut statement = c.prepare_cached(sql)?;
    lenient::readable(statement.query(params)?, "sessions", session)
}

/// Follows the children of compressed sessions. Branches, resets, delegates and tool runs are not continuations. Among
/// several children, a compressed one precedes a live one, and that precedes a closed one. Then the most recently used
/// one wins.
pub(super) fn tip(c: &Connection, id: &str) -> Result<String, StoreError> {
    // Most sessions were never split, and every step of a handoff asks.
    if !c
        .prepare_cached("SELECT 1 FROM sessions WHERE id = ?1 AND end_reason = 'compression'")?
        .exists([id])?
    {
        return Ok(id.to_owned());
    }
    let mut statement = c.prepare_cached(
        "SELECT child.id FROM sessions child
         WHERE likelihood(child.parent_session_id = ?1, 0.000001)
           AND (SELECT end_reason FROM sessions WHERE id = ?1) = 'compression' AND child.source <> 'tool' AND child.id IS NOT NULL
           AND CASE WHEN json_valid(COALESCE(child.model_config, '{}'))
                    THEN json_extract(COALESCE(child.model_config, '{}'), '$._branched_from') IS NOT child.parent_session_id
                     AND json_extract(COALESCE(child.model_config, '{}'), '$._delegate_from') IS NOT child.parent_session_id
                     AND json_extract(COALESCE(child.model_config, '{}'), '$._reset_from') IS NOT child.parent_session_id
                    ELSE 1 END
         ORDER BY CASE WHEN child.end_reason = 'compression' THEN 0 WHEN child.ended_at IS NULL THEN 1 ELSE 2 END,
                  COALESCE((SELECT max(timestamp) FROM messages WHERE session_id = child.id), child.started_at) DESC,
                  child.started_at DESC, child.id DESC
         LIMIT 1",
    )?;
    let mut seen = vec![id.to_owned()];
    while seen.len() <= LONGEST_LINEAGE {
        let current = &seen[seen.len() - 1];
        let next: Option<String> = statement
            .query_row([current], |row| lenient::name(row, 0))
            .optional()?;
        match next {
            Some(child) if !seen.contains(&child) => seen.push(child),
            _ => break,
        }
    }
    Ok(seen.pop().unwrap_or_default())
}

fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    let text = |at: usize| lenient::text(row, at);
    Ok(Session {
        id: lenient::name(row, 0)?,
        source: text(1)?.unwrap_or_default(),
        title: text(2)?,
        first_words: None,
        model: text(3)?,
        system_prompt: None,
        session_key: text(4)?,
        chat_id: text(5)?,
        thread_id: text(6)?,
        started_at: lenient::seconds(row, 7)?.unwrap_or_default(),
        ended_at: lenient::seconds(row, 8)?,
        end_reason: text(9)?,
        message_count: lenient::count(row, 10)?,
        handoff_state: text(11)?,
        handoff_platform: text(12)?,
        handoff_error: text(13)?,
        cwd: text(14)?.filter(|cwd| !cwd.is_empty()),
    })
}
