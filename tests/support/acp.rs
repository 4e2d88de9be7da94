//! A daemon whose agent is the tests' own `acp-agent`, and what that one has witnessed.

use std::path::Path;

use hermesd::client::{Client, News};
use hermesd::protocol::{
    Call, ChatSay, ChatTurnView, EventKind, EventsSubscribe, LocalMessageView, LocalRead, LocalSay,
    Nothing,
};
use serde_json::Value;

use super::{Daemon, Home, PATIENCE, SESSION, eventually, until};
use crate::terminal::sessions::say;

/// The tests' own agent.
pub fn acp_agent() -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_hermesd")).parent().unwrap();
    let agent = binaries.join("examples/acp-agent");
    assert!(
        agent.exists(),
        "plain `cargo test` builds {}, and so does `cargo build --examples`",
        agent.display()
    );
    agent.display().to_string()
}

/// A daemon with that agent.
pub fn start(home: &Home, mode: &str, settings: &[(&str, &str)]) -> Daemon {
    let agent = acp_agent();
    let record = home.path().join("record").display().to_string();
    let state = home.path().join("agent.json").display().to_string();
    let mut environment = vec![
        ("HERMESD_AGENT_DEFAULT", "acp"),
        ("HERMESD_AGENTS_ACP_COMMAND", agent.as_str()),
        ("ACP_AGENT_MODE", mode),
        ("ACP_AGENT_RECORD", &record),
        ("ACP_AGENT_STATE", &state),
    ];
    environment.extend(settings);
    home.start_with(&environment)
}

/// What the agent got, whole lines only.
pub fn record(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.path().join("record")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

pub fn methods(home: &Home) -> Vec<String> {
    record(home)
        .iter()
        .filter_map(|line| line["got"]["method"].as_str().map(str::to_owned))
        .collect()
}

/// The texts of every prompt, block by block.
pub fn prompts(home: &Home) -> Vec<Vec<String>> {
    let prompts = record(home).into_iter().map(|mut line| line["got"].take());
    let blocks = |prompt: Value| prompt["params"]["prompt"].as_array().cloned().unwrap();
    prompts
        .filter(|message| message["method"] == "session/prompt")
        .map(|prompt| {
            let texts = blocks(prompt).into_iter();
            texts
                .map(|block| block["text"].as_str().unwrap().to_owned())
                .collect()
        })
        .collect()
}

/// What the client answered to what it was asked.
pub fn outcomes(home: &Home) -> Vec<Value> {
    record(home)
        .into_iter()
        .map(|mut line| line["got"]["result"]["outcome"].take())
        .filter(|outcome| !outcome.is_null())
        .collect()
}

/// The agent processes that ever got a word, and whether they live.
pub fn agents(home: &Home) -> Vec<(i32, bool)> {
    let mut found: Vec<i32> = record(home)
        .iter()
        .map(|line| i32::try_from(line["pid"].as_i64().unwrap()).unwrap())
        .collect();
    found.dedup();
    let lives = |pid: i32| {
        // A process that nobody has waited for yet has ended all the same.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        !state.is_empty() && !state.starts_with('Z')
    };
    found.into_iter().map(|pid| (pid, lives(pid))).collect()
}

pub fn until_all_have_ended(home: &Home) {
    until("no agent lives", || {
        (!agents(home).iter().any(|(_, lives)| *lives)).then_some(())
    });
}

/// One line in a terminal that is closed again; the end of the turn.
pub fn chat(home: &Home, words: &str, arguments: &[&str]) -> Value {
    let all = [&["--json", "chat"], arguments].concat();
    let ran = home.pipe_into_hermesctl(&format!("{words}\n"), &all).end();
    let last = ran.stdout.lines().last();
    serde_json::from_str(last.unwrap_or_default()).unwrap_or_else(|e| panic!("{e} in {ran:?}"))
}

pub fn reply(turn: &Value) -> &str {
    assert_eq!(turn["error"], Value::Null, "{turn}");
    turn["reply"].as_str().expect("a reply")
}

/// All that the agent is to see of the seeded session.
pub const HISTORY: [&str; 5] = [
    "Why does the parser fail?",
    "Let me see.",
    "run_tests",
    "1 failed",
    "An off-by-one.",
];

pub fn tells_the_history(context: &str) -> bool {
    HISTORY.iter().all(|words| context.contains(words))
}

/// Live rows of the seeded session.
pub fn live(home: &Home) -> Vec<String> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare("SELECT role || ': ' || content FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id")
        .unwrap();
    let rows = statement.query_map([SESSION], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

pub async fn listen(home: &Home, topic: &str) -> Client {
    let listener = Client::connect(&home.socket()).await.unwrap();
    let wish = EventsSubscribe {
        topics: vec![topic.into()],
        session: None,
    };
    let _: Value = listener.call(Call::EventsSubscribe(wish)).await.unwrap();
    listener
}

pub async fn next(listener: &Client) -> EventKind {
    match tokio::time::timeout(PATIENCE, listener.news()).await {
        Ok(Some(News::Event(event))) => event.event,
        other => panic!("no event: {other:?}"),
    }
}

pub async fn stop(client: &Client) {
    let answer: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
    assert_eq!(answer["stopped"], true);
}

pub async fn answer(client: &Client, words: &str) -> Result<Value, hermesd::client::ClientError> {
    let wish = ChatSay { text: words.into() };
    client.call(Call::ChatAnswer(wish)).await
}

/// Says something in a terminal and stops the answer as soon as `ready`.
pub async fn cut_off(client: &Client, words: &str, ready: impl AsyncFnOnce()) -> ChatTurnView {
    let stopping = async {
        ready().await;
        stop(client).await;
    };
    let (turn, ()) = tokio::join!(say(client, words), stopping);
    turn.unwrap()
}

/// Waits for the first words of an answer.
pub async fn until_it_streams(listener: &Client) {
    while !matches!(next(listener).await, EventKind::TurnDelta { .. }) {}
}

/// Waits for a question and returns its text and choices.
pub async fn until_asked(listener: &Client) -> (String, Vec<String>) {
    loop {
        if let EventKind::TurnQuestion { text, choices, .. } = next(listener).await {
            return (text, choices);
        }
    }
}

pub async fn write(client: &Client, thread: Option<i64>, text: &str) {
    let text = text.to_owned();
    let _: Value = client
        .call(Call::LocalSay(LocalSay { thread, text }))
        .await
        .unwrap();
}

/// What the agent has said in a local chat, when it is so much.
pub async fn heard(client: &Client, thread: Option<i64>, count: usize) -> Vec<String> {
    eventually("replies in the chat", || async {
        let wish = LocalRead {
            thread,
            ..LocalRead::default()
        };
        // A thread may not be there yet.
        let all: Vec<LocalMessageView> = client.call(Call::LocalRead(wish)).await.ok()?;
        let said: Vec<String> = all
            .into_iter()
            .filter(|message| message.author == "agent")
            .map(|message| message.text)
            .collect();
        (said.len() >= count).then_some(said)
    })
    .await
}
