# Homebrew's formula. scripts/release fills in what stands between @.
class Limitdb < Formula
  desc "Rate-limiter server that speaks the Redis protocol"
  homepage "@URL@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/limitdb-@VERSION@-darwin-arm64.tar.gz"
      sha256 "@SUM-DARWIN-ARM64@"
    end
    on_intel do
      url "@URL@/limitdb-@VERSION@-darwin-amd64.tar.gz"
      sha256 "@SUM-DARWIN-AMD64@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/limitdb-@VERSION@-linux-arm64.tar.gz"
      sha256 "@SUM-LINUX-ARM64@"
    end
    on_intel do
      url "@URL@/limitdb-@VERSION@-linux-amd64.tar.gz"
      sha256 "@SUM-LINUX-AMD64@"
    end
  end

  def install
    bin.install "limitdb"
    man1.install "man/limitdb.1"
    man5.install "man/limitdb.conf.5"
    bash_completion.install "completions/limitdb.bash" => "limitdb"
    zsh_completion.install "completions/_limitdb"
    fish_completion.install "completions/limitdb.fish"
    # Homebrew keeps the file that is there.
    pkgetc.install "limitdb.conf"
    (var/"lib/limitdb").mkpath
  end

  service do
    run [opt_bin/"limitdb", etc/"limitdb/limitdb.conf", "--dir", var/"lib/limitdb"]
    keep_alive crashed: true
    log_path var/"log/limitdb.log"
    error_log_path var/"log/limitdb.log"
  end

  test do
    port = free_port
    server = spawn bin/"limitdb", "--port", port.to_s, "--http-port", "0", "--dir", testpath/"data"
    sleep 2
    assert_match "PONG", shell_output("#{bin}/limitdb ping --port #{port}")
  ensure
    Process.kill "TERM", server
    Process.wait server
  end
end
