//! Serves `GET /metrics` over HTTP, for collectors that cannot use the control socket. Size, time and number of
//! requests are limited. The connection ends with the answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::text::CONTENT_TYPE;

/// The limit of connections. Others are closed at once.
const CONNECTIONS: usize = 8;
/// The size limit of a request with its headers.
const LONGEST: usize = 8 << 10;
/// The time limit for receiving the request and sending the answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until `stop`. `text` makes the answer. `hosts` are the accepted names besides our address and loopback names.
pub async fn serve<F, T>(
    listener: TcpListener,
    hosts: Vec<String>,
    text: T,
    stop: CancellationToken,
) where
    F: Future<Output = String> + Send,
    T: Fn() -> F + Send + Sync + 'static,
{
    let (text, permits) = (Arc::new(text), Arc::new(Semaphore::new(CONNECTIONS)));
    let hosts: Arc<[String]> = hosts.into();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((mut stream, _)) = accepted else {
            // Probably out of file descriptors: others have to finish first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            continue;
        };
        let (text, hosts, stop) = (text.clone(), hosts.clone(), stop.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let answer = answer(&mut stream, &hosts, text.as_ref());
            let answered = tokio::time::timeout(TIMEOUT, answer);
            tokio::select! {
                _ = answered => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// Binds the listener. The error names the address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|e| format!("metrics.listen: {address}: {e}"))
}

async fn answer<F, T>(stream: &mut TcpStream, hosts: &[String], text: &T) -> std::io::Result<()>
where
    F: Future<Output = String> + Send,
    T: Fn() -> F,
{
    let own = stream.local_addr()?.ip();
    let is_ours = |host: &str| is_ours(host, own, hosts);
    let (status, body) = match request(stream, is_ours).await? {
        Request::Metrics { head } => {
            let body = text().await;
            let length = body.len();
            ("200 OK", (if head { String::new() } else { body }, length))
        }
        Request::Other(status) => (status, error_body(status)),
    };
    let (body, length) = body;
    let kind = match status {
        "200 OK" => CONTENT_TYPE,
        _ => "text/plain; charset=utf-8",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection and lose the answer.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

fn error_body(status: &str) -> (String, usize) {
    let body = format!("{status}\n");
    let length = body.len();
    (body, length)
}

enum Request {
    Metrics { head: bool },
    Other(&'static str),
}

async fn request(
    stream: &mut TcpStream,
    is_ours: impl Fn(&str) -> bool,
) -> std::io::Result<Request> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while !ends(&bytes) {
        if bytes.len() > LONGEST {
            return Ok(Request::Other("431 Request Header Fields Too Large"));
        }
        match stream.read(&mut chunk).await? {
            0 => break,
            n => bytes.extend_from_slice(&chunk[..n]),
        }
    }
    Ok(read(&bytes, is_ours))
}

fn ends(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|w| w == b"\r\n\r\n") || bytes.windows(2).any(|w| w == b"\n\n")
}

/// Whether a request for this host is meant for us. A web page can point any name of its own to our address, but not
/// these names.
fn is_ours(host: &str, own: IpAddr, names: &[String]) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, port),
        _ => (host, ""),
    };
    // An IPv6 address is in brackets.
    let name = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        Some(address) => address,
        None if name.contains(':') && port.is_empty() => return false,
        None => name,
    };
    let named = name.strip_suffix('.').unwrap_or(name);
    match name.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback() || address == own.to_canonical()
        }
        Err(_) => {
            let mut names = names.iter().map(String::as_str).chain(["localhost"]);
            names.any(|known| known.eq_ignore_ascii_case(named))
        }
    }
}

fn read(bytes: &[u8], is_ours: impl Fn(&str) -> bool) -> Request {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [method, target, version] = words[..] else {
        return Request::Other("400 Bad Request");
    };
    if !ends(bytes) || !version.starts_with("HTTP/1.") {
        return Request::Other("400 Bad Request");
    }
    // A request without a host is accepted: browsers always send one.
    let mut hosts = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    if !hosts.all(|(_, host)| is_ours(host.trim())) {
        return Request::Other("421 Misdirected Request");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => Request::Metrics {
            head: method == "HEAD",
        },
        (_, "/metrics") => Request::Other("405 Method Not Allowed"),
        _ => Request::Other("404 Not Found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> &'static str {
        let own = IpAddr::from([192, 0, 2, 7]);
        let names = ["Metrics.example".to_owned()];
        match read(request.as_bytes(), |host| is_ours(host, own, &names)) {
            Request::Metrics { head: false } => "200",
            Request::Metrics { head: true } => "200 without a body",
            Request::Other(status) => &status[..3],
        }
    }

    #[test]
    fn only_one_thing_can_be_asked_for() {
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
            ("GET /metrics?x=1 HTTP/1.0\n\n", "200"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 without a body"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/../x HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("GET /metrics HTTP/1.1\r\n", "400"),
            ("\r\n\r\n", "400"),
            ("\u{0}\u{1}\u{2}", "400"),
        ] {
            assert_eq!(status(request), expected, "{request:?}");
        }
    }

    #[test]
    fn only_our_own_hosts_are_answered() {
        for (host, expected) in [
            ("localhost", "200"),
            ("LOCALHOST:9464", "200"),
            ("localhost.", "200"),
            ("127.0.0.1:9464", "200"),
            ("127.1.2.3", "200"),
            ("[::1]:9464", "200"),
            ("[::ffff:127.0.0.1]", "200"),
            ("192.0.2.7:9464", "200"),
            ("metrics.example:9464", "200"),
            ("192.0.2.8", "421"),
            ("attacker.example:9464", "421"),
            ("localhost.attacker.example", "421"),
            ("127.0.0.1.attacker.example", "421"),
            ("::1", "421"),
            ("", "421"),
            ("localhost\r\nHost: attacker.example", "421"),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(status(&request), expected, "{host:?}");
        }
    }
}
