use std::time::Duration;

use super::*;
use crate::domain::ChatType;

fn question(open: bool) -> Question {
    Question {
        ask: "Run it?".into(),
        subject: Vec::new(),
        choices: vec!["Yes".into(), "No".into()],
        open,
    }
}

fn questions(answer: Option<Duration>) -> Questions {
    let patience = QuestionTimeouts {
        answer,
        reminder: None,
    };
    Questions::new(patience, PathBuf::from("/nonexistent"))
}

async fn ask(questions: &Questions, open: bool) -> (AskedQuestion, Waiting) {
    let asked = questions.ask("s", question(open), None).await;
    asked.expect("random numbers")
}

/// A question that a chat shows in message 5.
async fn shown(questions: &Questions) -> (AskedQuestion, Waiting) {
    let chat = Source::new("telegram", ChatType::Dm, "7");
    let asked = questions.ask("s", question(false), Some(&chat)).await;
    let (asked, waiting) = asked.expect("random numbers");
    asked.recorder().record(Shown {
        message_id: "5".into(),
        text: "Run it?".into(),
    });
    (asked, waiting)
}

fn any(_: &Asking<'_>) -> AnswerFit {
    AnswerFit::Yes
}

async fn answer(waiting: Waiting) -> QuestionAnswer {
    waiting.closed().await.answer()
}

const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

#[tokio::test]
async fn an_answer_reaches_the_asker_and_is_heard_once() {
    let questions = questions(MINUTE);
    assert_eq!(
        questions.answer_in_words("s", "1"),
        AnswerOutcome::NoQuestion
    );
    let (asked, waiting) = ask(&questions, false).await;
    let again = questions.answer_in_words("s", "perhaps");
    assert!(matches!(again, AnswerOutcome::NotAnAnswer(text) if text.contains("2. No")));
    assert_eq!(
        questions.answer_in_words("other", "2"),
        AnswerOutcome::NoQuestion
    );
    assert_eq!(
        questions.answer_in_words("s", " no "),
        AnswerOutcome::Answered(asked.id)
    );
    assert_eq!(
        questions.answer_in_words("s", "2"),
        AnswerOutcome::NoQuestion
    );
    assert_eq!(answer(waiting).await, QuestionAnswer::Choice(1));
}

#[tokio::test]
async fn a_button_answers_its_own_question_only() {
    let questions = questions(MINUTE);
    let before = shown(&questions).await.0.id;
    let (asked, waiting) = shown(&questions).await;
    let press = |id, at| questions.choose(id, at, "telegram", any);
    assert_eq!(press(before, 0), Pressed::NotOpen);
    assert_eq!(press(asked.id, 2), Pressed::NotOpen);
    for (fit, pressed) in [
        (AnswerFit::No, Pressed::NotOpen),
        (AnswerFit::NotTheirs, Pressed::NotTheirs),
    ] {
        let unfit = questions.choose(asked.id, 1, "telegram", |_| fit);
        assert_eq!(unfit, pressed);
    }
    assert_eq!(press(asked.id, 1), Pressed::Chosen("No".into()));
    assert_eq!(press(asked.id, 0), Pressed::NotOpen);
    assert_eq!(answer(waiting).await, QuestionAnswer::Choice(1));
}

#[tokio::test]
async fn two_questions_at_a_time_are_answered_each_on_its_own() {
    let questions = questions(MINUTE);
    let (first, waits) = ask(&questions, false).await;
    let (second, waits_too) = ask(&questions, true).await;
    let (third, waits_longest) = ask(&questions, false).await;
    // The end of the first question withdraws no other.
    assert_eq!(
        questions.answer_in_words("s", "1"),
        AnswerOutcome::Answered(first.id)
    );
    assert_eq!(answer(waits).await, QuestionAnswer::Choice(0));
    drop(first);
    // Text goes to the oldest question that accepts it.
    assert_eq!(
        questions.answer_in_words("s", "later"),
        AnswerOutcome::Answered(second.id)
    );
    assert_eq!(
        answer(waits_too).await,
        QuestionAnswer::Words("later".into())
    );
    assert_eq!(
        questions.answer_in_words("s", "no"),
        AnswerOutcome::Answered(third.id)
    );
    assert_eq!(answer(waits_longest).await, QuestionAnswer::Choice(1));
    assert!(questions.is_empty());
}

#[tokio::test]
async fn the_first_answer_wins_wherever_it_is_given() {
    let questions = questions(MINUTE);
    let (asked, waiting) = shown(&questions).await;
    assert_eq!(
        questions.answer_in_words("s", "2"),
        AnswerOutcome::Answered(asked.id)
    );
    let pressed = questions.choose(asked.id, 0, "telegram", any);
    assert_eq!(pressed, Pressed::NotOpen);
    let words = questions.hear_in_chat("1", "telegram", any);
    assert_eq!(words, HeardInChat::Message(None));
    let closed = waiting.closed().await;
    assert_eq!(closed.answer(), QuestionAnswer::Choice(1));
    assert_eq!(closed.place(), Some(TERMINAL));
    let shown = asked.close("");
    assert_eq!(shown[0].message_id, "5", "the chat can be told");
}

#[tokio::test]
async fn words_that_are_no_answer_are_noted_once() {
    let questions = questions(MINUTE);
    let (_asked, waiting) = shown(&questions).await;
    let hear = |words, fit| questions.hear_in_chat(words, "telegram", |_| fit);
    assert_eq!(hear("1", AnswerFit::No), HeardInChat::Message(None));
    for (fit, theirs) in [(AnswerFit::Yes, true), (AnswerFit::NotTheirs, false)] {
        let words = if theirs { "what?" } else { "1" };
        assert_eq!(hear(words, fit), HeardInChat::Message(Some(theirs)));
        assert_eq!(hear(words, fit), HeardInChat::Message(None));
    }
    assert_eq!(hear("1", AnswerFit::Yes), HeardInChat::Answered);
    assert_eq!(answer(waiting).await, QuestionAnswer::Choice(0));
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_as_long_as_it_may_and_a_withdrawn_one_is_gone() {
    let questions = questions(MINUTE);
    let (asked, waiting) = ask(&questions, true).await;
    assert_eq!(waiting.closed().await, Closed::TimedOut);
    drop(asked);
    drop(ask(&questions, true).await);
    assert_eq!(
        questions.answer_in_words("s", "words"),
        AnswerOutcome::NoQuestion
    );
    questions.set_patience(QuestionTimeouts::default());
    let (_asked, waiting) = ask(&questions, true).await;
    let years = Duration::from_secs(100_000_000);
    let closed = waiting.closed();
    tokio::pin!(closed);
    let waited = tokio::time::timeout(years, &mut closed).await;
    assert!(waited.is_err(), "it waits for ever");
    questions.answer_in_words("s", "words");
    assert_eq!(closed.await.answer(), QuestionAnswer::Words("words".into()));
}

#[tokio::test]
async fn ids_are_long_and_each_is_another() {
    let questions = questions(MINUTE);
    let mut ids = std::collections::HashSet::new();
    for _ in 0..100 {
        let (asked, _) = ask(&questions, false).await;
        let id = asked.id.to_string();
        assert_eq!(QuestionId::parse(&id), Some(asked.id));
        assert_eq!(id.len(), 32);
        ids.insert(id);
    }
    assert_eq!(ids.len(), 100);
}
