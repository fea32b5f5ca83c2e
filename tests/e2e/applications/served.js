// A server in a container: a page, what it gets, a WebSocket that repeats what it gets, and what an enemy would try.
const {createServer} = require("node:http")
const {createHash} = require("node:crypto")

const server = createServer((request, response) => {
    if (request.headers.authorization !== `Bearer ${process.env.PAI_APPLICATION_TOKEN}`) {
        response.writeHead(403).end()
    } else if (request.url === "/echo") {
        response.end(JSON.stringify(request.headers))
    } else if (request.url === "/takeover") {
        response.writeHead(302, {
            "Location": `${process.env.PLATFORM}/api/v2/jobs`,
            "Set-Cookie": ["pai_session=stolen; Path=/", "own=1; Path=/"],
        }).end()
    } else if (request.url === "/garbage") {
        response.socket.end("\x00\xff garbage\r\n\r\n")
    } else {
        response.end("in a container")
    }
})
server.on("upgrade", (request, socket) => {
    const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    const accept = createHash("sha1").update(key).digest("base64")
    socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
        `Sec-WebSocket-Accept: ${accept}\r\n\r\n`)
    socket.on("data", data => {
        // One short masked frame.
        const length = data[1] & 127
        const text = data.subarray(6, 6 + length).map((byte, at) => byte ^ data[2 + at % 4])
        socket.write(Buffer.concat([Buffer.from([0x81, length]), text]))
    })
})
server.listen(Number(process.argv[2]), "127.0.0.1")
