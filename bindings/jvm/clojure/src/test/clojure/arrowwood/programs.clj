(ns arrowwood.programs
  "Helpers for tests: temporary folders, waiting for conditions, and running other programs."
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell])
  (:import
   (com.google.gson JsonElement JsonParser)
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(defn temp-folder
  "Creates a folder that is deleted when the JVM ends."
  ^File []
  (let [folder (.toFile (Files/createTempDirectory "arrowwood" (make-array FileAttribute 0)))
        delete-all (fn [] (run! #(.delete ^File %) (reverse (file-seq folder))))]
    (.addShutdownHook (Runtime/getRuntime) (Thread. ^Runnable delete-all))
    folder))

;; ---- waiting ----

(def timeout-ms
  "The milliseconds after which a wait fails; long enough for a machine that is busy with other work."
  (* 1000 (parse-long (or (System/getenv "ARROWWOOD_PATIENCE") "240"))))

(defn- timed-out [description]
  (AssertionError. (str "not within " (quot (long timeout-ms) 1000) " s: " description)))

(defn until
  "Waits until `(holds?)` is true. The description names the condition in messages, as in \"the file exists\". Tests sleep
  only here, between two polls."
  [description holds?]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long timeout-ms)))]
    (while (not (holds?))
      (when (< deadline (System/nanoTime)) (throw (timed-out description)))
      (Thread/sleep 2))))

(defn await-value
  "Waits for a future or promise, and returns its value."
  [description future]
  (let [value (deref future timeout-ms ::timed-out)]
    (if (= ::timed-out value) (throw (timed-out description)) value)))

;; ---- programs ----

(defn run
  "Returns the output of a program, which must exit with status 0."
  [& command]
  (let [{:keys [exit out err]} (apply shell/sh (map str command))]
    (when-not (zero? exit) (throw (AssertionError. (str command ": " exit " " out err))))
    out))

(defn samples-program
  "Returns the example `samples`, which writes files of all types and reads them as JSON."
  []
  (io/file (System/getProperty "arrowwood.programs") "examples" "samples"))

(defn golden-folder
  "Returns the folder of Arrow's golden files, or nil if there is no copy on this machine."
  []
  (let [folder (io/file (System/getProperty "arrowwood.golden") "golden")]
    (when (.isDirectory folder) folder)))

(defn python
  "Returns the path of a Python that can import Arrowwood, or nil."
  []
  (let [path (System/getProperty "arrowwood.python" "")]
    (when (and (seq path)
               (.canExecute (io/file path))
               (zero? (:exit (shell/sh path "-c" "import arrowwood"))))
      path)))

;; ---- JSON ----

(defn- json->data [^JsonElement json]
  (cond
    (.isJsonNull json) nil
    (.isJsonArray json) (mapv json->data (.getAsJsonArray json))
    (.isJsonObject json) (into {}
                               (map (fn [entry] [(key entry) (json->data (val entry))]))
                               (.entrySet (.getAsJsonObject json)))
    (.isBoolean (.getAsJsonPrimitive json)) (.getAsBoolean json)
    (.isNumber (.getAsJsonPrimitive json)) (.getAsDouble json)
    :else (.getAsString json)))

(defn parse-json
  "Parses JSON; objects become maps with strings as keys, numbers doubles."
  [text]
  (json->data (JsonParser/parseString text)))
