//! Tests the query plans of all statements of the store with stale, wrong and invented statistics.
//!
//! `sqlite_stat1` belongs to the database, and other programs fill it. Whatever its content, no statement of ours may
//! scan a table that grows with use. The test takes the statements from the sources of this directory, so it covers
//! new ones without a list.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use super::{NewMessage, OpenMode, Store, features, messages, open, schema};

/// Tables that grow with use.
const LARGE: [&str; 8] = [
    "messages",
    "sessions",
    "gateway_routing",
    "hermesd_handoffs",
    "hermesd_deliveries",
    "hermesd_inbound",
    "hermesd_turns",
    "hermesd_local_messages",
];

/// Statements that may scan a table or walk through an index, and why.
const MAY_SCAN: [(&str, &str); 12] = [
    (
        "SELECT session_key, entry_json FROM gateway_routing WHERE scope",
        "looks for the chats of a place, once when a place ends",
    ),
    (
        "SELECT entry_json FROM gateway_routing WHERE scope",
        "lists the chats of a platform, once for a new session of its gateway",
    ),
    (
        "SELECT max(id) FROM messages WHERE id <= ?1",
        "looks at the last entry of the range alone",
    ),
    (
        "SELECT count(*) FROM sessions",
        "counts all rows, for a person who asks",
    ),
    (
        "instr(lower(content)",
        "searches without an index: looks at every message",
    ),
    (
        "(?1 IS NULL OR source = ?1)",
        "lists sessions by age, stops at the limit",
    ),
    (
        "COALESCE(end_reason, '') <> 'compression'",
        "walks sessions by age, stops at the limit",
    ),
    (
        "WHERE ?1 IS NULL ORDER BY id DESC LIMIT ?2",
        "lists handoffs by age, stops at the limit",
    ),
    (
        "SELECT home, thread, session_key, platform, state FROM hermesd_handoffs",
        "walks handoffs by age, stops at the limit",
    ),
    (
        "SELECT DISTINCT s.id FROM hermesd_handoffs h",
        "walks handoffs by age, stops at the limit",
    ),
    (
        "FROM sessions WHERE source = ?1 AND chat_id = ?2",
        "runs once when a chat gets another id",
    ),
    (
        "ORDER BY id LIMIT ?3",
        "pruning walks through the table once a day, in portions",
    ),
];

/// Constraints that select few rows of a table of any size.
const NARROW: [&str; 17] = [
    "(rowid=?)",
    "(id=?)",
    "(id>? AND id<?)",
    "(session_id=?",
    "(parent_session_id=?",
    "(session_key=?",
    "(title=?",
    "(handoff_state=?",
    "(handoff_id=?",
    "(scope=? AND session_key=?)",
    "(platform=? AND session_key=? AND message_id=?)",
    "(send_key=?)",
    "(chat_id=? AND thread_id=?",
    "USING INDEX hermesd_sessions_live",
    "USING INDEX hermesd_sessions_left",
    "USING INDEX hermesd_handoffs_in_flight",
    "_open",
];

/// Contents of `sqlite_stat1`: a description, and the numbers of an index by its table and its number of columns.
type Statistics = (&'static str, fn(&str, usize) -> String);

const STATISTICS: [Statistics; 8] = [
    ("analysed with one row", |_, columns| numbers(1, 1, columns)),
    ("analysed with few rows", |_, columns| {
        numbers(12, 4, columns)
    }),
    ("every row is the same", |_, columns| {
        numbers(1_000_000, 1_000_000, columns)
    }),
    ("more of a kind than rows", |_, columns| {
        numbers(1, 1_000_000, columns)
    }),
    (
        "messages small, the rest large",
        |table, columns| match table {
            "messages" => numbers(2, 2, columns),
            _ => numbers(1_000_000, 1_000, columns),
        },
    ),
    (
        "sessions small, the rest large",
        |table, columns| match table {
            "sessions" => numbers(2, 2, columns),
            _ => numbers(1_000_000, 1_000_000, columns),
        },
    ),
    (
        "our tables small, the rest large",
        |table, columns| match table.starts_with("hermesd_") {
            true => numbers(1, 1, columns),
            false => numbers(1_000_000, 1_000_000, columns),
        },
    ),
    ("no numbers at all", |_, _| "junk".into()),
];

fn numbers(rows: u32, alike: u32, columns: usize) -> String {
    format!("{rows}{}", format!(" {alike}").repeat(columns))
}

#[test]
fn no_statistics_make_a_statement_read_a_whole_table() {
    let mut found = BTreeSet::new();
    let statements = statements();
    assert!(statements.len() > 120, "{} statements", statements.len());
    let mut check = |what: &str, c: &Connection| {
        for sql in &statements {
            for step in wide_steps(c, sql) {
                found.insert(format!("{step}\n    with statistics: {what}\n    {sql}"));
            }
        }
    };
    check("none", &database());
    for (what, numbers) in STATISTICS {
        let c = database();
        pretend(&c, numbers);
        check(what, &c);
    }
    let found: Vec<String> = found.into_iter().collect();
    assert!(
        found.is_empty(),
        "These statements scan a table. Write a join or EXISTS by key as a subquery for a value. For our own indexes use \
         INDEXED BY, for Hermes' likelihood() and a unary plus. If a statement has to scan, add it to MAY_SCAN.\n{}",
        found.join("\n")
    );
}

#[tokio::test]
async fn a_stop_leaves_no_statistics_behind() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), OpenMode::Create, &Default::default()).unwrap();
    for _ in 0..20 {
        let session = store.create_session("cli", None, None).await.unwrap();
        let words = vec![NewMessage::reply("Done."); 20];
        store.append(&session, words).await.unwrap();
        store.transcript(&session).await.unwrap();
    }
    drop(store);
    let c = Connection::open(home.path().join("state.db")).unwrap();
    assert!(!schema::table_exists(&c, "sqlite_stat1").unwrap());
}

/// The additions of later Hermes versions to the schema that we create.
const NEWER: &str = "
    ALTER TABLE sessions ADD COLUMN system_prompt_hash TEXT;
    ALTER TABLE sessions ADD COLUMN title_source TEXT;
    ALTER TABLE sessions ADD COLUMN last_activity_at REAL;
    ALTER TABLE sessions ADD COLUMN created_source TEXT;
    ALTER TABLE messages ADD COLUMN display_kind TEXT;
    ALTER TABLE messages ADD COLUMN display_metadata TEXT;
    CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, prompt TEXT NOT NULL);
    CREATE TABLE conversation_generations (source TEXT NOT NULL, session_key TEXT NOT NULL,
        generation INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (source, session_key));
    DROP TABLE messages_fts_trigram;
    CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content, tool_name, tokenize='trigram');
    CREATE TABLE session_turn_leases (conversation_id TEXT PRIMARY KEY, holder TEXT NOT NULL,
        acquired_at REAL NOT NULL, expires_at REAL NOT NULL);";

fn database() -> Connection {
    let c = Connection::open_in_memory().unwrap();
    schema::bring_up(&c).unwrap();
    c.execute_batch(NEWER).unwrap();
    c.execute_batch(features::MEMORY).unwrap();
    open::stable_plans(&c).unwrap();
    c.execute_batch(messages::STAGE).unwrap();
    c
}

/// Replaces the statistics and makes this connection read them.
fn pretend(c: &Connection, numbers: fn(&str, usize) -> String) {
    c.execute_batch("ANALYZE; DELETE FROM sqlite_stat1; DELETE FROM sqlite_stat4;")
        .unwrap();
    let sql = "SELECT m.tbl_name, m.name, (SELECT count(*) FROM pragma_index_info(m.name))
               FROM sqlite_master m WHERE m.type = 'index'";
    let mut indexes = c.prepare(sql).unwrap();
    let indexes = indexes.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, i64>(2)?,
        ))
    });
    for index in indexes.unwrap() {
        let (table, name, columns) = index.unwrap();
        let stat = numbers(&table, usize::try_from(columns).unwrap());
        c.execute(
            "INSERT INTO sqlite_stat1 VALUES (?1, ?2, ?3)",
            [&table, &name, &stat],
        )
        .unwrap();
    }
    c.execute_batch("ANALYZE sqlite_schema").unwrap();
}

/// The steps of the plan that read a large table without a narrow constraint.
fn wide_steps(c: &Connection, sql: &str) -> Vec<String> {
    let mut plan = c
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap_or_else(|error| panic!("{error}\n    {sql}"));
    let steps: Vec<String> = plan
        .raw_query()
        .mapped(|row| row.get(3))
        .collect::<Result<_, _>>()
        .unwrap();
    if MAY_SCAN.iter().any(|(part, _)| sql.contains(part)) {
        return Vec::new();
    }
    let names = names(sql);
    let is_wide = |step: &&String| {
        let mut words = step.split(' ');
        let way = words.next().unwrap_or_default();
        let table = words.next().unwrap_or_default();
        let is_large = names
            .iter()
            .any(|(alias, table_name)| alias == table && LARGE.contains(&table_name.as_str()));
        // A search without a constraint reads only the first or the last entry.
        let is_end = words.next().is_none() && way == "SEARCH";
        let narrow = is_end || NARROW.iter().any(|narrow| step.contains(narrow));
        is_large && matches!(way, "SCAN" | "SEARCH") && (!narrow || step.contains("AUTOMATIC"))
    };
    steps.iter().filter(is_wide).cloned().collect()
}

/// The tables of a statement by their aliases.
fn names(sql: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = sql
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ','))
        .filter(|word| !word.is_empty())
        .collect();
    let mut names = Vec::new();
    for pair in words.windows(2) {
        let table = pair[0];
        if LARGE.contains(&table) {
            names.push((table.to_owned(), table.to_owned()));
            names.push((pair[1].to_owned(), table.to_owned()));
        }
    }
    names.extend(
        words
            .last()
            .map(|last| ((*last).to_owned(), (*last).to_owned())),
    );
    names
}

/// All statements in the sources of the store, with their placeholders filled in.
fn statements() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut all = Vec::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // These files have definitions, and statements that run once at the start.
        if matches!(
            name.as_str(),
            "schema"
                | "numbered"
                | "open"
                | "features"
                | "fulltext"
                | "plans"
                | "rehearsal"
                | "tokenizer"
        ) {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]\nmod ").next().unwrap();
        for literal in literals(&without_comments(source)) {
            if is_statement(&literal) {
                all.extend(filled(&name, literal));
            }
        }
    }
    all
}

fn is_statement(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default();
    matches!(first, "SELECT" | "UPDATE" | "DELETE" | "INSERT" | "WITH")
}

/// Removes comments and quoted quotes, which would look like the beginning of a literal.
fn without_comments(source: &str) -> String {
    let code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n").replace("'\"'", "' '")
}

/// The string literals of a source file, each as one line.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(begin) = rest.find('"') {
        let mut literal = String::new();
        let mut characters = rest[begin + 1..].char_indices();
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = begin + 1 + at + 1;
                    break;
                }
                '\\' => match characters.next() {
                    Some((_, '\n')) => literal.push(' '),
                    Some((_, escaped)) => literal.push(escaped),
                    None => {}
                },
                other => literal.push(other),
            }
        }
        found.push(literal.split_whitespace().collect::<Vec<_>>().join(" "));
        rest = &rest[end..];
    }
    found
}

/// The values for a placeholder of `format!` in the statements of a file.
fn filling(file: &str, name: &str) -> Vec<&'static str> {
    match (file, name) {
        ("deliveries", "OPEN") => vec!["state IN ('pending', 'sending')"],
        ("deliveries", "condition") => vec![
            "handoff_id = ?1 AND state IN ('pending', 'sending')",
            "state IN ('pending', 'sending') AND handoff_id IS NULL",
        ],
        ("inbound", "OPEN") => vec!["state IN ('received', 'running')"],
        ("handoff_log", "columns") => vec!["", ", sent_ids = ?4"],
        ("local", "MESSAGE") => vec!["id, chat_id, thread_id, author, text, at"],
        ("prune", "table") => vec!["hermesd_inbound", "hermesd_deliveries"],
        ("prune", "ended") => vec!["state = 'failed' AND ?1"],
        (_, "assignments") => vec!["source = 'cli'"],
        (_, "SOFT_ENDS") => vec!["('agent_close', 'ws_orphan_reap')"],
        (_, "RESET_REASONS") => vec!["('session_reset', 'session_switch')"],
        ("chat_columns", "activity") => vec!["last_activity_at", "NULL"],
        ("messages", "display") => vec!["display_kind, display_metadata", "NULL, NULL"],
        ("busy" | "search", "kind") => vec!["display_kind", "NULL"],
        ("search", "shown") => vec!["COALESCE(display_kind, '') <> 'hidden'", "1"],
        ("session_names", "person") => vec!["COALESCE(display_kind, '') = ''", "1"],
        ("retract", "person") => vec!["role = 'user' AND COALESCE(display_kind, '') = ''"],
        ("trigram", "INDEXED") => vec!["likelihood(session_id = ?1, 0.000001) AND role <> 'tool'"],
        ("lineage", "columns") => vec!["source, session_key"],
        ("lineage", "table") => vec!["hermesd_turns", "hermesd_agents", "hermesd_terminals"],
        ("search", "index") => vec!["messages_fts", "messages_fts_trigram"],
        ("search", "open" | "close") => vec!["*"],
        ("search", "before" | "piece") => vec!["10"],
        ("search", "conditions") => vec!["instr(lower(content), lower(?1)) > 0"],
        ("search", "COLUMNS") => {
            vec!["session_id, (SELECT title FROM sessions WHERE id = messages.session_id)"]
        }
        ("search", "FINDABLE") => vec!["(active = 1 OR compacted = 1)"],
        ("terminals", "sources") => vec!["'cli', 'tui', 'acp'"],
        ("terminals", "since") => vec!["1.5"],
        ("terminals", "of_terminals") => vec!["+source IN ('cli', 'tui', 'acp') AND archived = 0"],
        (_, name) if name.to_ascii_uppercase().ends_with("COLUMNS") => vec!["*"],
        (_, "CANDIDATES" | "limit" | "before" | "piece" | "after" | "last") => vec!["10"],
        _ => Vec::new(),
    }
}

fn filled(file: &str, statement: String) -> Vec<String> {
    let mut open = vec![statement.replace("{{", "\u{1}").replace("'{}'", "\u{2}")];
    let mut done = Vec::new();
    while let Some(statement) = open.pop() {
        let Some((begin, rest)) = statement.split_once('{') else {
            done.push(statement.replace('\u{1}', "{").replace('\u{2}', "'{}'"));
            continue;
        };
        let (name, _) = rest.split_once('}').unwrap();
        let fillings = filling(file, name);
        assert!(
            !fillings.is_empty(),
            "{file}.rs: say in `filling` what {{{name}}} stands for in: {begin}{{{rest}"
        );
        let placeholder = format!("{{{name}}}");
        open.extend(
            fillings
                .iter()
                .map(|text| statement.replace(&placeholder, text)),
        );
    }
    done
}
