//! A session is on one chat at the most, whatever sequence of handoffs, moves, new conversations and failures led there.

use std::cell::Cell;
use std::collections::BTreeMap;

use hermesd::domain::RequestedVia;
use hermesd::domain::Source;
use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::store::{Answer, Claim, Store, StoreError};
use proptest::prelude::*;

use crate::support::{Home, home_channel, no_thread};

const SESSIONS: usize = 3;
const CHATS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    /// A handoff begins and puts the chat on the session.
    Begin(usize, usize),
    Complete(usize),
    Fail(usize),
    /// Another program overwrites the row of a running handoff.
    Withdraw(usize),
    /// `hermesctl resume`.
    Home(usize),
    /// `/resume` in a chat.
    ToChat(usize, usize),
    /// `/new` in a chat.
    New(usize),
    /// Words in a chat, which begin a session where there is none.
    Words(usize),
    /// Compression splits a session: another row of it goes on.
    Rotate(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (session, chat) = (0..SESSIONS, 0..CHATS);
    let step = prop_oneof![
        4 => (session.clone(), chat.clone()).prop_map(|(s, c)| Step::Begin(s, c)),
        2 => session.clone().prop_map(Step::Complete),
        2 => session.clone().prop_map(Step::Fail),
        1 => session.clone().prop_map(Step::Withdraw),
        2 => session.clone().prop_map(Step::Home),
        3 => (session, chat.clone()).prop_map(|(s, c)| Step::ToChat(s, c)),
        1 => chat.clone().prop_map(Step::New),
        1 => chat.prop_map(Step::Words),
        2 => (0..SESSIONS).prop_map(Step::Rotate),
    ];
    prop::collection::vec(step, 1..24)
}

/// One database for all cases: each has sessions and chats of its own there.
struct World {
    home: Home,
    store: Store,
    case: Cell<usize>,
}

impl World {
    fn new() -> World {
        let home = Home::new();
        let store = home.store();
        World {
            home,
            store,
            case: Cell::new(0),
        }
    }

    fn next_case(&self) {
        self.case.set(self.case.get() + 1);
        for session in 0..SESSIONS {
            let sql = "INSERT INTO sessions (id, source, started_at) VALUES (?1, 'cli', 1.0)";
            self.home
                .sqlite()
                .execute(sql, [self.session(session)])
                .unwrap();
        }
    }

    fn session(&self, session: usize) -> String {
        format!("{}-s{session}", self.case.get())
    }

    fn chat(&self, chat: usize) -> String {
        format!("{}-c{chat}", self.case.get())
    }

    fn key(&self, chat: usize) -> String {
        format!("agent:main:local:dm:{}", self.chat(chat))
    }

    fn source(&self, chat: usize) -> Source {
        local::source(&self.chat(chat), None)
    }
}

/// The claims that are held, by session.
type Claims = BTreeMap<usize, Claim>;

impl World {
    async fn perform(&self, claims: &mut Claims, step: &Step) -> Result<(), StoreError> {
        let store = &self.store;
        match *step {
            Step::Begin(session, chat) => self.begin(claims, session, chat).await,
            Step::Complete(session) => match claims.remove(&session) {
                Some(claim) => complete(store, claim).await,
                None => Ok(()),
            },
            Step::Fail(session) => match claims.remove(&session) {
                Some(claim) => store
                    .fail_handoff(&claim, "as the test wants it", Vec::new())
                    .await
                    .map(drop),
                None => Ok(()),
            },
            Step::Withdraw(session) => {
                if let Some(claim) = claims.remove(&session) {
                    let sql = "UPDATE sessions SET handoff_state = 'failed' WHERE id = ?1";
                    let id = &claim.handoff.session_id;
                    self.home.sqlite().execute(sql, [id]).expect("a row");
                    store.close_overtaken(|_| Vec::new()).await.1?;
                }
                Ok(())
            }
            Step::Home(session) => store.take_home(&self.session(session)).await.map(drop),
            Step::ToChat(session, chat) => store
                .take_to_chat(&self.session(session), &self.key(chat), &self.source(chat))
                .await
                .map(drop),
            Step::New(chat) => store
                .start_anew(&self.key(chat), &self.source(chat))
                .await
                .map(drop),
            Step::Words(chat) => {
                let key = self.key(chat);
                if store.live_session(&key).await?.is_none() && store.left(&key).await?.is_none() {
                    store.bind_fresh_session(&key, &self.source(chat)).await?;
                }
                Ok(())
            }
            Step::Rotate(session) => self.rotate(&self.session(session)).await,
        }
    }

    /// As Hermes does it in a process that knows nothing of chats.
    async fn rotate(&self, session: &str) -> Result<(), StoreError> {
        let tip = self.store.tip(session).await?;
        let sqlite = self.home.sqlite();
        let end = "UPDATE sessions SET ended_at = 2.0, end_reason = 'compression' WHERE id = ?1";
        sqlite.execute(end, [&tip]).expect("a row");
        let go_on = "INSERT INTO sessions (id, source, parent_session_id, started_at) VALUES (?1, 'tui', ?2, 2.0)";
        let child = format!("{tip}+");
        sqlite.execute(go_on, [&child, &tip]).expect("a row");
        Ok(())
    }

    async fn begin(
        &self,
        claims: &mut Claims,
        session: usize,
        chat: usize,
    ) -> Result<(), StoreError> {
        let (store, id) = (&self.store, self.session(session));
        store
            .request_handoff(&id, "local", None, RequestedVia::Socket, false)
            .await?;
        let claim = store.claim_handoff(&id, "me", f64::MAX, home_channel);
        let claim = claim.await?.expect("a claim");
        store.record_thread(&claim, &no_thread()).await?;
        let (key, source) = (self.key(chat), self.source(chat));
        if store.record_binding(&claim, &key, &source).await? {
            claims.insert(session, claim);
            return Ok(());
        }
        store
            .fail_handoff(&claim, "the chat is taken", Vec::new())
            .await
            .map(drop)
    }
}

async fn complete(store: &Store, mut claim: Claim) -> Result<(), StoreError> {
    let answer = Answer {
        notice: "n".into(),
        reply: "r".to_owned().into(),
        deliveries: Vec::new(),
        transcript_writer: TranscriptWriter::Daemon,
    };
    store.record_answer(&claim, answer).await?;
    claim.sent = Some(Vec::new());
    store.complete_handoff(&claim).await.map(drop)
}

/// What is wrong with the bindings, if anything is.
async fn fault(world: &World) -> Option<String> {
    let World { home, store, .. } = world;
    let mut chats: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for chat in 0..CHATS {
        let key = world.key(chat);
        if let Some(session) = store.live_session(&key).await.unwrap() {
            chats.entry(session).or_default().push(key);
        }
    }
    for (id, keys) in chats {
        // Of the row that goes on, or else of the last before it that has one.
        let sql = "WITH RECURSIVE rows(id, parent, key, end, depth) AS (
                       SELECT id, parent_session_id, session_key, end_reason, 0 FROM sessions WHERE id = ?1
                       UNION ALL
                       SELECT s.id, s.parent_session_id, s.session_key, s.end_reason, depth + 1
                       FROM rows JOIN sessions s ON s.id = rows.parent)
                   SELECT (SELECT key FROM rows WHERE key IS NOT NULL ORDER BY depth LIMIT 1),
                          (SELECT end FROM rows WHERE depth = 0),
                          (SELECT displaced FROM hermesd_handoffs WHERE state = 'running' AND session_id IN (SELECT id FROM rows))";
        let (key, end, displaced): (Option<String>, Option<String>, Option<String>) = home
            .sqlite()
            .query_row(sql, [&id], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        // A move leaves the chat before it when it has succeeded.
        let displaced: Option<serde_json::Value> =
            displaced.map(|text| serde_json::from_str(&text).unwrap());
        let in_flight = displaced.is_some();
        let before = displaced.and_then(|d| d["incoming"][2].as_str().map(str::to_owned));
        let allowed = [key, before];
        if let Some(other) = keys.iter().find(|k| !allowed.contains(&Some((*k).clone()))) {
            return Some(format!("{other} is on {id}, which belongs to {allowed:?}"));
        }
        if end.as_deref() == Some("session_switch") && !in_flight {
            return Some(format!("{id} is on {keys:?} and has ended with {end:?}"));
        }
    }
    None
}

#[test]
fn no_sequence_of_moves_puts_a_session_on_two_chats() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 128,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let world = World::new();
    let outcome = runner.run(&steps(), |steps| {
        world.next_case();
        let mut claims = Claims::new();
        for (done, step) in steps.iter().enumerate() {
            match runtime.block_on(world.perform(&mut claims, step)) {
                Ok(()) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(TestCaseError::fail(format!("{step:?}: {error}"))),
            }
            if let Some(fault) = runtime.block_on(fault(&world)) {
                let steps = &steps[..=done];
                return Err(TestCaseError::fail(format!("after {steps:?}: {fault}")));
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
