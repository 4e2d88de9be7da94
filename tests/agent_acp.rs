//! An agent that speaks the Agent Client Protocol, with the built binaries: who gets what of a conversation, who is asked
//! for permission, and what becomes of a turn when the agent stops, crashes or refuses.

use std::path::Path;

use hermesd::client::{Client, News};
use hermesd::protocol::{
    Call, ChatSay, ChatTurnView, EventKind, EventsSubscribe, LocalMessageView, LocalRead, LocalSay,
    Nothing,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::chats::spoken;
use crate::support::{
    Daemon, Home, PATIENCE, SESSION, eventually, request, seed_session, somebody_hands_off, until,
};
use crate::terminal::{kind, open, say};

/// The tests' own agent.
fn acp_agent() -> String {
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
fn start(home: &Home, mode: &str, settings: &[(&str, &str)]) -> Daemon {
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
fn record(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.path().join("record")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

fn methods(home: &Home) -> Vec<String> {
    record(home)
        .iter()
        .filter_map(|line| line["got"]["method"].as_str().map(str::to_owned))
        .collect()
}

/// The texts of every prompt, block by block.
fn prompts(home: &Home) -> Vec<Vec<String>> {
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
fn outcomes(home: &Home) -> Vec<Value> {
    record(home)
        .into_iter()
        .map(|mut line| line["got"]["result"]["outcome"].take())
        .filter(|outcome| !outcome.is_null())
        .collect()
}

/// The agent processes that ever got a word, and whether they live.
fn agents(home: &Home) -> Vec<(i32, bool)> {
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

fn until_all_have_ended(home: &Home) {
    until("no agent lives", || {
        (!agents(home).iter().any(|(_, lives)| *lives)).then_some(())
    });
}

/// One line in a terminal that is closed again; the end of the turn.
fn chat(home: &Home, words: &str, arguments: &[&str]) -> Value {
    let all = [&["--json", "chat"], arguments].concat();
    let ran = home.pipe_into_hermesctl(&format!("{words}\n"), &all).end();
    let last = ran.stdout.lines().last();
    serde_json::from_str(last.unwrap_or_default()).unwrap_or_else(|e| panic!("{e} in {ran:?}"))
}

fn reply(turn: &Value) -> &str {
    assert_eq!(turn["error"], Value::Null, "{turn}");
    turn["reply"].as_str().expect("a reply")
}

/// All that the agent is to see of the seeded session.
const HISTORY: [&str; 5] = [
    "Why does the parser fail?",
    "Let me see.",
    "run_tests",
    "1 failed",
    "An off-by-one.",
];

fn tells_the_history(context: &str) -> bool {
    HISTORY.iter().all(|words| context.contains(words))
}

/// Live rows of the seeded session.
fn live(home: &Home) -> Vec<String> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare("SELECT role || ': ' || content FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id")
        .unwrap();
    let rows = statement.query_map([SESSION], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

async fn listen(home: &Home, topic: &str) -> Client {
    let listener = Client::connect(&home.socket()).await.unwrap();
    let wish = EventsSubscribe {
        topics: vec![topic.into()],
        session: None,
    };
    let _: Value = listener.call(Call::EventsSubscribe(wish)).await.unwrap();
    listener
}

async fn next(listener: &Client) -> EventKind {
    match tokio::time::timeout(PATIENCE, listener.news()).await {
        Ok(Some(News::Event(event))) => event.event,
        other => panic!("no event: {other:?}"),
    }
}

async fn stop(client: &Client) {
    let answer: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
    assert_eq!(answer["stopped"], true);
}

async fn answer(client: &Client, words: &str) -> Result<Value, hermesd::client::ClientError> {
    let wish = ChatSay { text: words.into() };
    client.call(Call::ChatAnswer(wish)).await
}

/// Says something in a terminal and stops the answer as soon as `ready`.
async fn cut_off(client: &Client, words: &str, ready: impl AsyncFnOnce()) -> ChatTurnView {
    let stopping = async {
        ready().await;
        stop(client).await;
    };
    let (turn, ()) = tokio::join!(say(client, words), stopping);
    turn.unwrap()
}

/// Waits for the first words of an answer.
async fn until_it_streams(listener: &Client) {
    while !matches!(next(listener).await, EventKind::TurnDelta { .. }) {}
}

/// Waits for a question and returns its text and choices.
async fn until_asked(listener: &Client) -> (String, Vec<String>) {
    loop {
        if let EventKind::TurnQuestion { text, choices, .. } = next(listener).await {
            return (text, choices);
        }
    }
}

async fn write(client: &Client, thread: Option<i64>, text: &str) {
    let text = text.to_owned();
    let _: Value = client
        .call(Call::LocalSay(LocalSay { thread, text }))
        .await
        .unwrap();
}

/// What the agent has said in a local chat, when it is so much.
async fn heard(client: &Client, thread: Option<i64>, count: usize) -> Vec<String> {
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

#[tokio::test]
async fn an_answer_streams_into_the_terminal_and_stands_in_the_transcript_once() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    let id = open(&client, None).await.unwrap().session.id;
    let turn = say(&client, "hello").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("Blocks: 1. Prompts: 1.", None)
    );
    let mut pieces = Vec::new();
    loop {
        match next(&listener).await {
            EventKind::TurnDelta { text, .. } => pieces.push(text),
            EventKind::TurnEnded { .. } => break,
            _ => {}
        }
    }
    assert_eq!(pieces, ["Blocks: 1. ", "Prompts: 1."]);
    let rows = ["user: hello", "assistant: Blocks: 1. Prompts: 1."];
    assert_eq!(spoken(&home, &id), rows);
}

#[test]
fn thoughts_tools_and_plans_are_no_part_of_the_answer() {
    let home = Home::new();
    let _daemon = start(&home, "plain", &[]);
    let turn = chat(&home, "think", &[]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 1.");
}

#[tokio::test]
async fn a_history_from_elsewhere_is_given_once_before_the_first_words_and_never_again() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    open(&client, Some(SESSION)).await.unwrap();
    let one = say(&client, "one").await.unwrap().reply;
    let two = say(&client, "two").await.unwrap().reply;
    assert_eq!(
        (one.as_str(), two.as_str()),
        ("Blocks: 2. Prompts: 1.", "Blocks: 1. Prompts: 2.")
    );
    let [first, second] = &prompts(&home)[..] else {
        panic!("{:?}", methods(&home));
    };
    assert!(tells_the_history(&first[0]), "{first:?}");
    assert_eq!(
        (&first[1..], &second[..]),
        (&["one".to_owned()][..], &["two".to_owned()][..])
    );
}

#[tokio::test]
async fn a_conversation_goes_to_a_chat_and_comes_back_with_each_message_once() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    somebody_hands_off(&home);
    let client = daemon.client().await;
    write(&client, Some(1), "and here?").await;
    let said = heard(&client, Some(1), 2).await;
    assert_eq!(said, ["Blocks: 2. Prompts: 1.", "Blocks: 1. Prompts: 2."]);
    let back = home.hermesctl(&["resume", SESSION, "--no-chat"]);
    assert_eq!(back.code, 0, "{back:?}");
    let turn = chat(&home, "home again", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 3.");
    assert!(tells_the_history(&prompts(&home)[0][0]));
    let rows = live(&home);
    assert!(rows[4].starts_with("user: [Handoff]"), "{rows:?}");
    let rest = [
        "assistant: Blocks: 2. Prompts: 1.",
        "user: and here?",
        "assistant: Blocks: 1. Prompts: 2.",
        "user: home again",
        "assistant: Blocks: 1. Prompts: 3.",
    ];
    assert_eq!(rows[5..], rest);
}

#[tokio::test]
async fn what_another_agent_said_meanwhile_is_given_and_only_that() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = start(&home, "plain", &[]);
    chat(&home, "one", &["--resume", SESSION]);
    chat(&home, "aside", &["--resume", SESSION, "--agent", "echo"]);
    let turn = chat(&home, "two", &["--resume", SESSION, "--agent", "acp"]);
    assert_eq!(reply(&turn), "Blocks: 2. Prompts: 2.");
    let context = &prompts(&home)[1][0];
    assert!(
        context.contains("user: aside") && context.contains("assistant: "),
        "{context}"
    );
    assert!(
        !context.contains("parser fail") && !context.contains("Prompts: 1"),
        "{context}"
    );
    chat(&home, "three", &["--resume", SESSION]);
    assert_eq!(prompts(&home)[2], ["three"]);
}

/// Speaks in the seeded session before and after a restart of the daemon. What the agent was asked since.
async fn after_a_restart(home: &Home, mode: &str) -> (Vec<String>, Vec<String>) {
    seed_session(home).await;
    let daemon = start(home, mode, &[]);
    reply(&chat(home, "one", &["--resume", SESSION]));
    daemon.stop();
    let before = methods(home).len();
    let _daemon = start(home, mode, &[]);
    reply(&chat(home, "two", &["--resume", SESSION]));
    let asked = methods(home).split_off(before);
    let rows = live(home);
    assert_eq!((rows.len(), rows[6].as_str()), (8, "user: two"), "{rows:?}");
    (asked, prompts(home).pop().unwrap())
}

#[tokio::test]
async fn after_a_restart_an_agent_that_remembers_is_told_nothing_again() {
    let home = Home::new();
    let (asked, prompt) = after_a_restart(&home, "remembers").await;
    assert_eq!(asked, ["initialize", "session/load", "session/prompt"]);
    assert_eq!(prompt, ["two"]);
}

#[tokio::test]
async fn after_a_restart_an_agent_that_loads_nothing_is_told_everything() {
    let home = Home::new();
    let (asked, prompt) = after_a_restart(&home, "plain").await;
    assert_eq!(asked, ["initialize", "session/new", "session/prompt"]);
    assert!(
        tells_the_history(&prompt[0]) && prompt[0].contains("user: one"),
        "{prompt:?}"
    );
}

#[tokio::test]
async fn an_agent_that_only_pretends_to_remember_is_told_everything() {
    let home = Home::new();
    let (asked, prompt) = after_a_restart(&home, "forgetful").await;
    assert_eq!(
        asked,
        [
            "initialize",
            "session/load",
            "session/new",
            "session/prompt"
        ]
    );
    assert!(
        tells_the_history(&prompt[0]) && prompt[0].contains("user: one"),
        "{prompt:?}"
    );
}

#[tokio::test]
async fn an_agent_may_replay_more_than_anybody_waits_for() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "remembers", &[]);
    chat(&home, "one", &["--resume", SESSION]);
    daemon.stop();
    let path = home.path().join("agent.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for session in state.as_object_mut().unwrap().values_mut() {
        session["history"] = Value::from(vec![json!(["agent", "words"]); 10_000]);
    }
    std::fs::write(&path, state.to_string()).unwrap();
    let _daemon = start(&home, "remembers", &[]);
    let turn = chat(&home, "two", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 1.");
}

#[tokio::test]
async fn a_stopped_answer_is_cancelled_at_the_agent_kept_as_far_as_it_came_and_followed_by_others()
{
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, Some(SESSION)).await.unwrap();
    let turn = cut_off(&client, "slowly", async || {
        until_it_streams(&listener).await
    })
    .await;
    assert_eq!(
        (turn.reply.as_str(), turn.interrupted, turn.error),
        ("Half of", true, None)
    );
    assert!(methods(&home).contains(&"session/cancel".to_owned()));
    let finish = "SELECT finish_reason FROM messages ORDER BY id DESC LIMIT 1";
    let finish: String = home
        .sqlite()
        .query_row(finish, [], |row| row.get(0))
        .unwrap();
    assert_eq!(finish, "interrupted");
    // The same session of the agent's, which knows what it said itself.
    let turn = say(&client, "again").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("Blocks: 1. Prompts: 2.", None)
    );
    let rest = [
        "user: slowly",
        "assistant: Half of",
        "user: again",
        "assistant: Blocks: 1. Prompts: 2.",
    ];
    assert_eq!(live(&home)[4..], rest);
}

#[tokio::test]
async fn an_agent_that_does_not_stop_holds_up_neither_the_stop_nor_the_next_turn() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, Some(SESSION)).await.unwrap();
    assert_eq!(say(&client, "one").await.unwrap().error, None);
    until_it_streams(&listener).await;
    while !matches!(next(&listener).await, EventKind::TurnEnded { .. }) {}
    let turn = cut_off(&client, "stubborn", async || {
        until_it_streams(&listener).await
    })
    .await;
    assert_eq!(
        (turn.reply.as_str(), turn.interrupted, turn.error),
        ("Half of", true, None)
    );
    let turn = say(&client, "again").await.unwrap();
    assert_eq!(turn.error, None);
    // Its own session is still busy: another one learns everything anew.
    let context = &prompts(&home)[2][0];
    assert!(
        tells_the_history(context) && context.contains("Half of"),
        "{context}"
    );
}

#[tokio::test]
async fn a_stop_in_a_chat_cancels_at_the_agent_too() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    write(&client, None, "slowly").await;
    until_it_streams(&listener).await;
    write(&client, None, "/stop").await;
    eventually("the agent is told", || async {
        methods(&home)
            .contains(&"session/cancel".to_owned())
            .then_some(())
    })
    .await;
    write(&client, None, "again").await;
    eventually("the next answer", || async {
        let said = heard(&client, None, 1).await;
        said.contains(&"Blocks: 1. Prompts: 2.".to_owned())
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_permission_is_asked_in_the_terminal_until_there_is_an_answer() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, None).await.unwrap();
    for (words, chosen) in [
        ("1", "allow_once"),
        ("always", "allow_always"),
        (" NO ", "reject_once"),
    ] {
        let answering = async {
            let (text, choices) = until_asked(&listener).await;
            assert!(text.contains("rm -rf /tmp/nothing"), "{text}");
            assert_eq!(choices, ["Yes", "Always", "No"]);
            for nonsense in ["4", "0", "perhaps", ""] {
                assert_eq!(
                    kind(answer(&client, nonsense).await),
                    "no_answer",
                    "{nonsense:?}"
                );
            }
            answer(&client, words).await.unwrap();
        };
        let (turn, ()) = tokio::join!(say(&client, "permission"), answering);
        assert_eq!(turn.unwrap().reply, format!("You chose the-{chosen}"));
    }
    assert_eq!(kind(answer(&client, "1").await), "no_question");
    assert_eq!(outcomes(&home).len(), 3, "the agent hears no nonsense");
}

#[tokio::test]
async fn a_permission_is_asked_in_the_chat_and_nonsense_repeats_the_question() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    write(&client, None, "permission").await;
    let said = heard(&client, None, 1).await;
    let question =
        "May I do this?\nrm -rf /tmp/nothing\n1. Yes\n2. Always\n3. No\nAnswer with a number.";
    assert_eq!(said, [question]);
    write(&client, None, "what?").await;
    assert_eq!(heard(&client, None, 2).await, [question, question]);
    // The words of an answer are no message: attach sees the agent go on.
    let attached = home.pipe_into_hermesctl("1\n", &["attach", "local"]).end();
    assert!(
        attached.stdout.contains("You chose the-allow_once"),
        "{attached:?}"
    );
    let id: String = home
        .sqlite()
        .query_row("SELECT session_id FROM messages LIMIT 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(
        spoken(&home, &id),
        ["user: permission", "assistant: You chose the-allow_once"]
    );
}

#[tokio::test]
async fn a_handoff_may_ask_in_the_chat_that_it_goes_to() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    let handoff = home.spawn_hermesctl(&["handoff", "local", "--note", "permission"], &[]);
    let said = heard(&client, Some(1), 1).await;
    assert!(said[0].contains("3. No"), "{said:?}");
    write(&client, Some(1), "3").await;
    let ended = handoff.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(
        heard(&client, Some(1), 2).await[1],
        "You chose the-reject_once"
    );
    assert_eq!(live(&home).len(), 6);
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_answered_with_no() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[("HERMESD_AGENT_QUESTION_TIMEOUT", "1s")]);
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let turn = say(&client, "permission").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("You chose the-reject_once", None)
    );
    assert_eq!(kind(answer(&client, "1").await), "no_question");
}

#[tokio::test]
async fn a_stop_withdraws_the_question_and_tells_the_agent() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, None).await.unwrap();
    let turn = cut_off(&client, "permission", async || {
        until_asked(&listener).await;
    })
    .await;
    assert!(turn.interrupted, "{turn:?}");
    assert_eq!(outcomes(&home), [json!({"outcome": "cancelled"})]);
    assert_eq!(kind(answer(&client, "1").await), "no_question");
    let turn = say(&client, "again").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("Blocks: 1. Prompts: 2.", None)
    );
}

#[tokio::test]
async fn a_crash_fails_the_turn_with_the_agents_last_words_and_the_next_turn_starts_it_anew() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = start(&home, "plain", &[]);
    reply(&chat(&home, "one", &["--resume", SESSION]));
    let turn = chat(&home, "crash", &["--resume", SESSION]);
    let error = turn["error"].as_str().expect("an error");
    assert!(
        error.contains("boom") && error.contains("exit status: 3"),
        "{error}"
    );
    let turn = chat(&home, "two", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 2. Prompts: 1.");
    assert_eq!(agents(&home).len(), 2);
    let rest = [
        "user: crash",
        "user: two",
        "assistant: Blocks: 2. Prompts: 1.",
    ];
    assert_eq!(live(&home)[6..], rest);
}

#[test]
fn an_agent_that_crashes_again_and_again_is_left_alone_for_a_while() {
    let home = Home::new();
    let _daemon = start(&home, "plain", &[]);
    let error = until("it is left alone", || {
        let turn = chat(&home, "crash", &[]);
        let error = turn["error"].as_str().expect("an error").to_owned();
        (!error.contains("boom")).then_some(error)
    });
    assert!(
        error.contains("times in a row and is left alone for"),
        "{error}"
    );
    // And then it is asked again.
    until("it is tried again", || {
        (chat(&home, "hello", &[])["error"] == Value::Null).then_some(())
    });
}

#[tokio::test]
async fn an_agent_that_nobody_needs_ends_and_is_started_when_it_is_needed() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = start(&home, "remembers", &[("HERMESD_AGENTS_IDLE_TIMEOUT", "1s")]);
    reply(&chat(&home, "one", &["--resume", SESSION]));
    until_all_have_ended(&home);
    let turn = chat(&home, "two", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 2.");
    assert_eq!(agents(&home).len(), 2);
}

#[test]
fn an_agent_ends_with_the_daemon_however_that_ends() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let home = Home::new();
        let mut daemon = start(&home, "plain", &[]);
        // At work, deaf to requests, and not one to go when its input ends.
        let _talking = home.pipe_into_hermesctl("stubborn\n", &["chat"]);
        until("the agent is at it", || prompts(&home).pop());
        if signal == Signal::SIGKILL && home.command("setpriv").arg("--version").output().is_err() {
            return;
        }
        daemon.signal(signal);
        daemon.wait();
        until_all_have_ended(&home);
    }
}

#[tokio::test]
async fn an_agent_that_never_says_hello_does_not_outlive_the_turn() {
    let home = Home::new();
    let daemon = start(&home, "mute", &[]);
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let turn = cut_off(&client, "hello", async || {
        eventually("it is greeted", || async { record(&home).pop() }).await;
    })
    .await;
    assert!(turn.interrupted, "{turn:?}");
    until_all_have_ended(&home);
}

#[tokio::test]
async fn an_empty_answer_or_a_refusal_fails_a_handoff_and_leaves_nothing_of_it() {
    for (note, reason) in [("empty", "empty"), ("refuse", "refuses")] {
        let home = Home::new();
        seed_session(&home).await;
        let _daemon = start(&home, "plain", &[]);
        let before = live(&home);
        let ran = home.hermesctl(&["handoff", "local", "--session", SESSION, "--note", note]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(reason), "{ran:?}");
        let source = "SELECT source FROM sessions WHERE id = ?1";
        let source: String = home
            .sqlite()
            .query_row(source, [SESSION], |row| row.get(0))
            .unwrap();
        assert_eq!((live(&home), source.as_str()), (before, "cli"));
        // What never stood in the transcript counts for nothing: others' words are not taken for it.
        chat(&home, "aside", &["--resume", SESSION, "--agent", "echo"]);
        reply(&chat(
            &home,
            "two",
            &["--resume", SESSION, "--agent", "acp"],
        ));
        let prompt = prompts(&home).pop().unwrap();
        assert!(prompt[0].contains("user: aside"), "{prompt:?}");
    }
}

#[tokio::test]
async fn words_that_come_behind_the_end_belong_to_no_later_answer() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    let id = open(&client, None).await.unwrap().session.id;
    let late = say(&client, "late").await.unwrap();
    assert!(late.reply.starts_with("Blocks: 1. Prompts: 1."), "{late:?}");
    let turn = say(&client, "next").await.unwrap();
    assert_eq!(turn.reply, "Blocks: 1. Prompts: 2.");
    assert_eq!(spoken(&home, &id).len(), 4);
}

#[test]
fn the_witness_of_these_tests_is_strict() {
    let home = Home::new();
    let hello = json!({"protocolVersion": 1});
    let here = json!({"cwd": "/", "mcpServers": []});
    let said = [
        ("session/new", here.clone(), -32600),
        ("initialize", json!({"protocolVersion": 2}), -32602),
        ("initialize", hello.clone(), 0),
        ("initialize", hello, -32600),
        ("session/new", json!({"cwd": "here"}), -32602),
        ("session/new", here.clone(), 0),
        ("session/load", here, -32601),
        ("session/prompt", json!({"sessionId": "nobody"}), -32602),
        ("session/nonsense", json!({}), -32601),
    ];
    let lines: String = said
        .iter()
        .enumerate()
        .map(|(id, (method, params, _))| request(json!(id), method, params.clone()))
        .collect();
    home.write("said", &lines);
    let mut agent = home.command(&acp_agent());
    agent.stdin(std::fs::File::open(home.path().join("said")).unwrap());
    let answers = String::from_utf8(agent.output().unwrap().stdout).unwrap();
    let codes: Vec<i64> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| answer["error"]["code"].as_i64().unwrap_or_default())
        .collect();
    assert_eq!(codes, said.map(|(_, _, code)| code));
}
