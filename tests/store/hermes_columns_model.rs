//! Random moves of sessions between chats and the terminal, on a file of the newest Hermes. Whatever happens, what Hermes relies on holds.

use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::store::{Answer, Store, StoreError};
use proptest::prelude::*;

use crate::store::open::home_of;
use crate::support::{Home, home_channel, no_thread};

/// A conversation of two rows, a session that the trigram index leaves out, and a plain one.
const SESSIONS: [&str; 3] = [
    "20260103_100000_dddddd",
    "20260107_090000_c0c0c0",
    "20260106_090000_abcabc",
];
const CHATS: [&str; 2] = ["k0", "k1"];

#[derive(Debug, Clone)]
enum Op {
    HandOff(usize, usize),
    FailHandoff(usize, usize),
    TakeHome(usize),
    TakeToChat(usize, usize),
    StartAnew(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let (session, chat) = (0..SESSIONS.len(), 0..CHATS.len());
    prop_oneof![
        (session.clone(), chat.clone()).prop_map(|(s, c)| Op::HandOff(s, c)),
        (session.clone(), chat.clone()).prop_map(|(s, c)| Op::FailHandoff(s, c)),
        session.clone().prop_map(Op::TakeHome),
        (session, chat.clone()).prop_map(|(s, c)| Op::TakeToChat(s, c)),
        chat.prop_map(Op::StartAnew),
    ]
}

async fn hand_off(
    store: &Store,
    id: &str,
    key: &str,
    goes_through: bool,
) -> Result<(), StoreError> {
    store
        .request_handoff(id, "local", None, RequestedVia::Direct, false)
        .await?;
    let claim = store.claim_handoff(id, "owner", f64::MAX, home_channel);
    let mut claim = claim.await?.expect("a pending row");
    store.record_thread(&claim, &no_thread()).await?;
    store
        .record_binding(&claim, key, &local::source("home", Some(key)))
        .await?;
    let answer = Answer {
        notice: "moved".into(),
        reply: "here".to_owned().into(),
        deliveries: Vec::new(),
        transcript_writer: TranscriptWriter::Daemon,
    };
    store.record_answer(&claim, answer).await?;
    claim.sent = Some(Vec::new());
    match goes_through {
        true => store.complete_handoff(&claim).await.map(drop),
        false => store.fail_handoff(&claim, "no", Vec::new()).await.map(drop),
    }
}

async fn perform(store: &Store, op: &Op) -> Result<(), StoreError> {
    let source = |chat: usize| local::source("home", Some(CHATS[chat]));
    match op {
        Op::HandOff(s, c) => hand_off(store, SESSIONS[*s], CHATS[*c], true).await,
        Op::FailHandoff(s, c) => hand_off(store, SESSIONS[*s], CHATS[*c], false).await,
        Op::TakeHome(s) => store.take_home(SESSIONS[*s]).await.map(drop),
        Op::TakeToChat(s, c) => store
            .take_to_chat(SESSIONS[*s], CHATS[*c], &source(*c))
            .await
            .map(drop),
        Op::StartAnew(c) => store.start_anew(CHATS[*c], &source(*c)).await.map(drop),
    }
}

fn texts(home: &Home, sql: &str) -> Vec<String> {
    let c = home.sqlite();
    let mut statement = c.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

const ROWS: &str = "SELECT json_array(id, source, user_id, session_key, chat_id, chat_type, thread_id, display_name, origin_json,
                           ended_at, end_reason, last_activity_at) FROM sessions ORDER BY id";
/// Rows before a tip that are elsewhere than the tip.
const TORN: &str = "SELECT p.id FROM sessions p, sessions t WHERE t.parent_session_id = p.id AND p.end_reason = 'compression'
                      AND (p.source <> t.source OR p.session_key IS NOT t.session_key OR p.chat_id IS NOT t.chat_id)";
/// Rows in a terminal that a chat would be given back to.
const KEPT: &str =
    "SELECT id FROM sessions WHERE source IN ('cli', 'tui', 'acp') AND session_key IS NOT NULL";
/// Rows that a chat names and that name another one, unless they have ended.
const LOST: &str = "SELECT s.id FROM gateway_routing r, sessions s
                    WHERE r.session_key IN ('k0', 'k1') AND s.id = json_extract(r.entry_json, '$.session_id')
                      AND s.ended_at IS NULL AND s.session_key IS NOT r.session_key";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_hermes_relies_on_holds_after_every_move(ops in prop::collection::vec(op(), 1..10)) {
        let home = home_of("hermes-schema-30.db");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = home.store();
        let c = home.sqlite();
        // Another SQLite made the index, and it does not pass this one's check. So it is built anew first.
        c.execute_batch(
            "DELETE FROM messages WHERE instr(content, char(0)) > 0;
             INSERT INTO messages_fts_trigram (messages_fts_trigram) VALUES ('rebuild');",
        ).unwrap();
        let count = "SELECT CAST(COALESCE(sum(generation), 0) AS TEXT) FROM conversation_generations";
        let mut generations = 0;
        for op in &ops {
            let before = texts(&home, ROWS);
            runtime.block_on(perform(&store, op)).unwrap();
            if matches!(op, Op::FailHandoff(..)) {
                prop_assert_eq!(texts(&home, ROWS), before);
            }
            for nothing in [TORN, KEPT, LOST] {
                prop_assert_eq!(texts(&home, nothing), Vec::<String>::new(), "{} after {:?}", nothing, op);
            }
            let check = "INSERT INTO messages_fts_trigram (messages_fts_trigram, rank) VALUES ('integrity-check', 1)";
            prop_assert!(c.execute(check, []).is_ok(), "the index after {:?}", op);
            let now: i64 = texts(&home, count)[0].parse().unwrap();
            prop_assert!(now >= generations);
            generations = now;
        }
    }
}
