(ns arrowwood.live-test
  "One table that Python writes, and Java, Clojure, C and Go follow at once: each sees every row once."
  (:require
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (dev.arrowwood Arrowwood Follow ReadOption)
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.time Duration)
   (java.util.concurrent TimeUnit)))

(def ^:private rows 20000)

(def ^:private writer "
import sys, time
import arrowwood as aw
import pyarrow as pa

path, rows = sys.argv[1], int(sys.argv[2])
with aw.writer(path, pa.schema([pa.field('n', pa.int64(), nullable=False)]), segment_rows=3000) as table:
    table.commit()
    print('ready', flush=True)
    sys.stdin.readline()
    for start in range(0, rows, 100):
        for n in range(start, start + 100):
            table.append_row(n=n)
        table.commit(durable=start % 5000 == 0, positions={'n': start})
        time.sleep(0.001)
")

(defn- start ^Process [& words]
  (.start (doto (ProcessBuilder. ^java.util.List (mapv str words))
            (.redirectError ProcessBuilder$Redirect/INHERIT))))

(defn- left-out [what]
  (println (str "test-jvm: the live table is not followed by " what ": it is not here"))
  nil)

(defn- here? [& words] (zero? (:exit (shell/sh "sh" "-c" (str/join " && " (map #(str "command -v " %) words))))))

(defn- library? [] (zero? (:exit (shell/sh "sh" "-c" "pkg-config --exists arrowwood"))))

(defn- sources [] (io/file (System/getProperty "arrowwood.docs") ".." "tests" "capi"))

(defn- library-folder [] (str/trim (programs/run "pkg-config" "--variable=libdir" "arrowwood")))

(defn- c-follower
  "The words that follow a table from C, or nil."
  [folder]
  (if (and (library?) (here? "cc"))
    (let [program (io/file folder "follow-c")]
      (programs/run "sh" "-c" (str "cc -std=c99 '" (io/file (sources) "c" "follow.c") "' $(pkg-config --cflags --libs arrowwood)"
                                   " -Wl,-rpath,'" (library-folder) "' -lm -lpthread -o '" program "'"))
      [program])
    (left-out "C")))

(defn- go-follower [folder]
  (if (and (library?) (here? "cc" "go"))
    (let [program (io/file folder "follow-go")]
      (programs/run "sh" "-c" (str "cd '" (io/file (sources) "go") "' && CGO_LDFLAGS_ALLOW='-Wl,-rpath.*'"
                                   " CGO_LDFLAGS='-Wl,-rpath," (library-folder) "' go build -o '" program "' ."))
      [program "follow"])
    (left-out "Go")))

(defn- of-program [words table]
  (let [process (apply start (concat words [table rows]))]
    (future
      (let [said (slurp (.getInputStream process))]
        (is (.waitFor process 60 TimeUnit/SECONDS))
        (is (zero? (.exitValue process)) (str (first words)))
        (mapv parse-long (str/split-lines (str/trim said)))))))

(defn- of-java [^File table]
  (future
    (with-open [^Follow follow (.follow (Arrowwood/open (.toPath table) (make-array ReadOption 0)) 0)]
      (loop [seen []]
        (if (< (count seen) rows)
          (let [more (.next follow (Duration/ofSeconds 60))]
            (if (.isPresent more)
              (recur (into seen (.toArray (.stream (.asLong (.column ^dev.arrowwood.Dataset (.get more) "n"))))))
              seen))
          seen)))))

(defn- of-clojure [table from]
  (future
    ;; Nobody begins behind the end of a table.
    (while (< (aw/rows (aw/open table)) (long from)) (Thread/sleep 1))
    (with-open [follower (aw/follow table {:from from :timeout-ms 60000})]
      (reduce (fn [seen more]
                (let [seen (into seen (:n more))] (if (= (dec (long rows)) (peek seen)) (reduced seen) seen)))
              [] follower))))

(deftest a-table-that-python-writes-is-followed-by-all
  (if-let [python (programs/python)]
    (let [folder (programs/folder)
          table (io/file folder "live")
          programs (into {} (remove (comp nil? val)) {"C" (c-follower folder) "Go" (go-follower folder)})
          script (doto (io/file folder "writer.py") (spit writer))
          process (start python script table rows)
          said (io/reader (.getInputStream process))]
      (is (= "ready" (.readLine said)))
      (let [followers (merge {"Java" (of-java table) "Clojure" (of-clojure table 0) "Clojure, later" (of-clojure table 7000)}
                             (update-vals programs #(of-program % table)))]
        (with-open [in (io/writer (.getOutputStream process))] (.write in "go\n"))
        (doseq [[who seen] followers]
          (is (= (range (if (= "Clojure, later" who) 7000 0) rows) (deref seen 120000 :late)) who))
        (is (.waitFor process 60 TimeUnit/SECONDS))
        (is (zero? (.exitValue process)))
        (is (= {"n" (- (long rows) 100)} (aw/positions (aw/open table))))))
    (is (nil? (left-out "anyone; Python, which writes it,")))))
