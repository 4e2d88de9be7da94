//! What a prompt may be made of: words and links always, the rest as it was agreed on.

use serde_json::{Value, json};

/// What `ACP_AGENT_TAKES` names beside words and links: `image`, `audio`.
fn taken() -> Vec<String> {
    let taken = std::env::var("ACP_AGENT_TAKES").unwrap_or_default();
    taken
        .split(',')
        .filter(|kind| !kind.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What it says of that when it is greeted.
pub(crate) fn capabilities() -> Value {
    let takes = |kind: &str| taken().iter().any(|taken| taken == kind);
    json!({"image": takes("image"), "audio": takes("audio")})
}

/// Why it does not take a block.
pub(crate) fn check(block: &Value) -> Result<(), String> {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    let is_sound = match text("type") {
        "text" => block["text"].is_string(),
        kind @ ("image" | "audio") if taken().iter().any(|taken| taken == kind) => {
            text("mimeType").starts_with(&format!("{kind}/")) && is_base64(text("data"))
        }
        "resource_link" => {
            let uri = text("uri");
            !text("name").is_empty() && uri.starts_with("file:///") && !uri.contains([' ', '\n'])
        }
        kind => return Err(format!("{kind:?} was not agreed on")),
    };
    let shown: String = block.to_string().chars().take(200).collect();
    is_sound
        .then_some(())
        .ok_or(format!("a block that is not as it should be: {shown}"))
}

fn is_base64(data: &str) -> bool {
    let (body, is_known) = (data.trim_end_matches('='), |c: char| {
        c.is_ascii_alphanumeric() || c == '+' || c == '/'
    });
    !body.is_empty() && data.len().is_multiple_of(4) && body.chars().all(is_known)
}
